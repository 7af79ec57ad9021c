// Operators on points: any request is either refused by an Error or safe to run, and a tree gives the bits of brute
// force. Each view lies in a heap block that holds just its elements, so that AddressSanitizer sees every step outside.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/points.hpp"
#include "fuzz/promise.hpp"
#include "rowmax/nearest.hpp"

namespace {

using namespace rowmax;
using fuzz::expect;

constexpr std::int64_t most_elements = 1 << 12;

class Decoder {
  public:
    Decoder(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

    PointRequest request() {
        PointRequest r;
        dtype_ = static_cast<DType>(bytes_.ConsumeIntegralInRange(0, 3));
        dim_ = bytes_.ConsumeIntegralInRange<std::int64_t>(1, 20);
        lead_ = shape(0, 2, 3);
        r.p = side();
        r.r = side();
        r.options.metric = bytes_.ConsumeBool() ? Metric::l1 : Metric::l2_sq;
        r.options.validate = bytes_.ConsumeBool();
        r.options.threads = rarely() ? length() % 8 : 1;
        return r;
    }
    std::int64_t k() { return rarely() ? length() : bytes_.ConsumeIntegralInRange<std::int64_t>(1, 9); }

    /// Results of exactly this shape.
    TensorView array(DType dtype, const std::vector<std::int64_t>& dims) {
        TensorView view(nullptr, dtype, std::span(dims));
        const auto bytes = static_cast<std::size_t>(view.numel()) * size_of(dtype);
        blocks_.emplace_back(new std::byte[bytes]);
        std::memset(blocks_.back().get(), 0x2a, bytes);
        view.data = blocks_.back().get();
        return view;
    }

    // When the bytes run out they read as 0: the likely branch.
    bool rarely() { return bytes_.ConsumeIntegral<std::uint8_t>() % 16 == 15; }

  private:
    std::int64_t length() {
        return rarely() ? bytes_.ConsumeIntegral<std::int32_t>() : bytes_.ConsumeIntegralInRange<std::int64_t>(0, 40);
    }

    std::vector<std::int64_t> shape(int least, int most, std::int64_t largest) {
        std::vector<std::int64_t> s(static_cast<std::size_t>(bytes_.ConsumeIntegralInRange(least, most)));
        for (std::int64_t& size : s) size = bytes_.ConsumeIntegralInRange<std::int64_t>(0, largest);
        return s;
    }

    /// Memory for the elements of a row-major view, and nothing more; none where that would be too much.
    TensorView placed(DType dtype, const std::vector<std::int64_t>& dims) {
        TensorView view(nullptr, dtype, std::span(dims));
        const std::int64_t elements = view.numel();
        if (elements < 1 || elements > most_elements || rarely()) return view;
        const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
        blocks_.emplace_back(new std::byte[bytes]);
        std::byte* to = blocks_.back().get();
        const std::vector<std::uint8_t> fill = bytes_.ConsumeBytes<std::uint8_t>(std::min<std::size_t>(bytes, 64));
        for (std::size_t i = 0; i < bytes; ++i) to[i] = fill.empty() ? std::byte{} : std::byte{fill[i % fill.size()]};
        view.data = to;
        return view;
    }

    TensorView offsets(std::int64_t items) {
        const bool wide = bytes_.ConsumeBool();
        TensorView view = placed(wide ? DType::i64 : DType::i32, {items + 1});
        std::int64_t value = 0;
        for (std::int64_t i = 0; i <= items && view.data != nullptr; ++i) {
            if (wide) {
                static_cast<std::int64_t*>(view.data)[i] = value;
            } else {
                static_cast<std::int32_t*>(view.data)[i] = static_cast<std::int32_t>(value);
            }
            value = rarely() ? length() - 20 : value + bytes_.ConsumeIntegralInRange<std::int64_t>(0, 20);
        }
        return view;
    }

    PointSet side() {
        PointSet set;
        const bool packed = bytes_.ConsumeBool();
        std::vector<std::int64_t> dims = packed ? std::vector<std::int64_t>{} : lead_;
        dims.push_back(length());
        dims.push_back(rarely() ? length() : dim_);
        set.points = placed(rarely() ? static_cast<DType>(bytes_.ConsumeIntegralInRange(0, 9)) : dtype_, dims);
        if (set.points.ndim > 2 && rarely()) set.points.stride[0] = 0;
        if (packed) set.cu_seqlens = offsets(lead_.size() == 1 ? lead_[0] : 1);
        if (packed ? rarely() : bytes_.ConsumeBool()) {
            dims.pop_back();
            if (dims.size() > 1 && bytes_.ConsumeBool()) dims[0] = 1;
            set.mask = placed(static_cast<DType>(bytes_.ConsumeIntegralInRange(0, 9)), dims);
        }
        return set;
    }

    FuzzedDataProvider bytes_;
    DType dtype_ = DType::f32;
    std::int64_t dim_ = 1;
    std::vector<std::int64_t> lead_;
    std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

bool same_bytes(const TensorView& a, const TensorView& b) {
    const auto bytes = static_cast<std::size_t>(a.numel()) * size_of(a.dtype);
    return bytes == 0 || std::memcmp(a.data, b.data, bytes) == 0;
}

/// NaN of different bits are as good as each other.
bool same_numbers(const TensorView& a, const TensorView& b) {
    if (a.dtype == DType::f32) {
        const auto* x = static_cast<const float*>(a.data);
        const auto* y = static_cast<const float*>(b.data);
        return std::equal(x, x + a.numel(), y, [](float s, float t) { return s == t || (s != s && t != t); });
    }
    const auto* x = static_cast<const double*>(a.data);
    const auto* y = static_cast<const double*>(b.data);
    return std::equal(x, x + a.numel(), y, [](double s, double t) { return s == t || (s != s && t != t); });
}

std::vector<std::int64_t> with(std::vector<std::int64_t> shape, std::int64_t last) {
    shape.push_back(last);
    return shape;
}

void run(Decoder& decoder, PointRequest request) {
    const core::PointProblem problem = core::make_point_problem(request);
    const core::PointParams& params = problem.params;
    const std::int64_t k = decoder.k();
    const DType type = params.result_dtype();
    if (params.p.count > 1000 || k > 100 || params.p.total_rows > 1000 || params.r.total_rows > 1000) return;
    const std::vector<std::int64_t> shape = with(problem.points_p, std::max<std::int64_t>(k, 0));
    const TensorView distance = decoder.array(type, shape);
    const TensorView index = decoder.array(DType::i64, shape);
    nearest(request, k, distance, index);
    for (std::int64_t i = 0; i < index.numel(); ++i) {
        const std::int64_t at = static_cast<const std::int64_t*>(index.data)[i];
        expect(at >= -1 && at < params.r.max_length);
    }
    if (params.dim <= core::most_tree_dims) {
        request.options.search = PointSearch::tree;
        const TensorView again = decoder.array(type, shape);
        const TensorView where = decoder.array(DType::i64, shape);
        nearest(request, k, again, where);
        expect(same_numbers(distance, again) && same_bytes(index, where));
    }
    // Backward from the true index, or from whatever an array holds.
    const TensorView chosen = decoder.rarely() ? decoder.array(DType::i64, shape) : index;
    const TensorView grad_p = decoder.array(params.dtype, with(problem.points_p, params.dim));
    const TensorView grad_r = decoder.array(params.dtype, with(problem.points_r, params.dim));
    nearest_backward(request, k, chosen, distance, grad_p, grad_r);
    const ChamferIndex both{decoder.array(DType::i64, problem.points_p), decoder.array(DType::i64, problem.points_r)};
    const TensorView value = decoder.array(type, problem.items);
    chamfer(request, Reduction::mean, false, {value, {}, {}}, both);
    chamfer_backward(request, Reduction::mean, both, {value, {}, {}}, grad_p, grad_r);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Decoder decoder(data, size);
    fuzz::attempt([&] { run(decoder, decoder.request()); });
    return 0;
}
