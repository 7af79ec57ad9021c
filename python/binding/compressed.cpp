// Compressed tokens: made here; they are scored through Request.
#include "rowmax/compressed.hpp"

#include <nanobind/nanobind.h>

#include "arrays.hpp"

namespace rowmax::python {

namespace {

void fill_int8(nb::handle tokens, bool by_document, int threads, bool bits_are_bfloat16, nb::handle codes,
               nb::handle scale) {
    Array in;
    Array out[2];
    in.read({tokens, "X", Role::tokens, bits_are_bfloat16});
    out[0].read({codes, "codes", Role::result});
    out[1].read({scale, "scale", Role::result});
    const nb::gil_scoped_release unlocked;
    quantize_int8(in.view, by_document ? Granularity::document : Granularity::token, out[0].view, out[1].view, threads);
}

}  // namespace

void define_compressed(nb::module_& m) {
    m.def("quantize_int8", &fill_int8);
}

}  // namespace rowmax::python
