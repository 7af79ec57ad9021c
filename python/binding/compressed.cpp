// Compressed tokens: made here; they are scored through Request.
#include "rowmax/compressed.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include "arrays.hpp"
#include "call_place.hpp"
#include "rowmax/error.hpp"
#include "tensors.hpp"

namespace rowmax::python {

namespace {

/// What both quantisers are given: tokens in; codes and scales out.
struct Quantized {
    Array in;
    Array codes;
    Array scale;

    Device device;

    Quantized(nb::handle tokens, bool bits_are_bfloat16, nb::handle to_codes, nb::handle to_scale,
              std::uintptr_t stream) {
        in.read({tokens, "X", Role::tokens, bits_are_bfloat16, true, stream});
        if (is_tensor(tokens) && in.cuda >= 0) stream = reinterpret_cast<std::uintptr_t>(current_stream(in.cuda));
        read_result(codes, to_codes, "codes", stream);
        read_result(scale, to_scale, "scale", stream);
        if (in.cuda >= 0) device = {Device::Kind::cuda, in.cuda, reinterpret_cast<void*>(stream)};
    }

  private:
    void read_result(Array& array, nb::handle object, const char* name, std::uintptr_t stream) const {
        array.read({object, name, Role::result, false, true, stream});
        if (array.cuda == in.cuda) return;
        throw Error(ErrorCode::invalid_type, fmt::format("{} must lie where X does", name));
    }
};

void fill_int8(nb::handle tokens, bool by_document, int threads, bool bits_are_bfloat16, nb::handle codes,
               nb::handle scale, std::uintptr_t stream) {
    const Quantized to(tokens, bits_are_bfloat16, codes, scale, stream);
    const nb::gil_scoped_release unlocked;
    quantize_int8(to.in.view, by_document ? Granularity::document : Granularity::token, to.codes.view, to.scale.view,
                  threads, to.device);
}

void fill_fp8(nb::handle tokens, bool per_tensor, int threads, bool bits_are_bfloat16, nb::handle codes,
              nb::handle scale, std::uintptr_t stream) {
    Quantized to(tokens, bits_are_bfloat16, codes, scale, stream);
    if (to.codes.view.dtype == DType::u8) to.codes.view.dtype = DType::f8e4m3;
    const nb::gil_scoped_release unlocked;
    quantize_fp8(to.in.view, per_tensor, to.codes.view, to.scale.view, threads, to.device);
}

void fill_bits(nb::handle tokens, bool big, int threads, bool bits_are_bfloat16, nb::handle bits) {
    CallPlace place;
    Array in;
    Array out;
    place.read(in, {tokens, "X", Role::tokens, bits_are_bfloat16});
    place.read(out, {bits, "out", Role::result});
    Options options;
    options.threads = threads;
    options.device = place.device();
    const nb::gil_scoped_release unlocked;
    sign_bits(in.view, big, out.view, options);
}

void fill_unpacked(nb::handle bytes, int nbits, bool little, nb::handle values) {
    Array in;
    Array out;
    in.read({bytes, "bytes", Role::bytes});
    out.read({values, "out", Role::result});
    const nb::gil_scoped_release unlocked;
    unpack_residual(in.view, nbits, little ? BitOrder::little : BitOrder::colbert, out.view);
}

}  // namespace

void define_compressed(nb::module_& m) {
    m.def("quantize_int8", &fill_int8);
    m.def("quantize_fp8", &fill_fp8);
    m.def("sign_bits", &fill_bits);
    m.def("unpack_residual", &fill_unpacked);
}

}  // namespace rowmax::python
