// Quantisers: tokens as codes with scales.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/bit_fields.hpp"
#include "core/device_codes.hpp"
#include "core/device_quantize.hpp"
#include "core/element.hpp"
#include "core/float8.hpp"
#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/parallel.hpp"
#include "core/token_rows.hpp"
#include "rowmax/compressed.hpp"

namespace rowmax {

namespace {

void check_threads(int threads) {
    if (threads >= 0) return;
    throw Error(ErrorCode::invalid_value, fmt::format("threads: must not be negative, got {}", threads));
}

void check_tokens(const TensorView& tokens) {
    core::check_input(tokens, "X");
    switch (tokens.dtype) {
        case DType::f16:
        case DType::bf16:
        case DType::f32:
        case DType::f64: break;
        default:
            throw Error(ErrorCode::invalid_type,
                        fmt::format("X must be float16, bfloat16, float32 or float64, got {}", name_of(tokens.dtype)));
    }
    if (tokens.ndim >= 2) return;
    throw Error(ErrorCode::invalid_value,
                fmt::format("X {}: tokens have 2 to 4 dimensions, the last one d", tokens.shape_text()));
}

/// The largest magnitude of a row; NaN where it holds a NaN or an infinity. Eight at a time, which a compiler turns
/// into vectors.
template <class Value>
Value largest(const Value* row, std::int64_t dim) {
    constexpr int lanes = 8;
    Value most[lanes] = {};
    Value odd[lanes] = {};  // x * 0 is 0, or NaN where x is not finite
    const auto add = [&](int lane, Value x) {
        const Value magnitude = std::fabs(x);
        most[lane] = magnitude > most[lane] ? magnitude : most[lane];
        odd[lane] += x * 0;
    };
    std::int64_t k = 0;
    for (; k + lanes <= dim; k += lanes) {
        for (int lane = 0; lane < lanes; ++lane) add(lane, row[k + lane]);
    }
    for (int lane = 0; k < dim; ++k, ++lane) add(lane, row[k]);
    for (int lane = 1; lane < lanes; ++lane) {
        most[0] = std::max(most[0], most[lane]);
        odd[0] += odd[lane];
    }
    return most[0] + odd[0];
}

/// To the nearest whole number, the even one of two, for |x| below 2^22: adding a number whose last bit counts ones
/// rounds in one instruction, where nearbyint() would be a call.
inline float round_even(float x) {
    constexpr float ones = 0x1.8p23F;
    return (x + ones) - ones;
}
inline double round_even(double x) {
    constexpr double ones = 0x1.8p52;
    return (x + ones) - ones;
}

/// What a quantiser makes of numbers x / scale.
struct Int8 {
    using Code = std::int8_t;
    static constexpr DType dtype = DType::i8;
    static constexpr int most = 127;
    template <class Value>
    static Code code(Value x) {
        const Value whole = round_even(x);
        const Value low = whole < -127 ? Value{-127} : whole;
        return static_cast<Code>(static_cast<int>(low > 127 ? Value{127} : low));
    }
};

struct Float8 {
    using Code = std::uint8_t;
    static constexpr DType dtype = DType::f8e4m3;
    static constexpr int most = 448;
    static Code code(float x) { return core::float_to_float8(x); }
    static Code code(double x) { return core::float_to_float8(core::detail::to_float_odd(x)); }
};

/// The scale of a group of rows that share it.
template <class Kind, class Value>
float scale_of(const core::TokenRows& rows, std::int64_t first, std::int64_t count, Value* scratch) {
    const std::int64_t dim = rows.dim();
    const auto row = [&](std::int64_t i) {
        return core::row_as<Value>(rows.at(first + i), rows.dtype(), dim, scratch);
    };
    Value most = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const Value here = largest(row(i), dim);
        most = most >= here || most != most ? most : here;
    }
    const auto scale = static_cast<float>(most / Value{Kind::most});
    if (scale == 0 && most > 0) return std::numeric_limits<float>::denorm_min();  // 0 is for zeros alone
    return std::isfinite(scale) ? scale : std::numeric_limits<float>::quiet_NaN();
}

template <class Kind, class Value>
void write_codes(const core::TokenRows& rows, std::int64_t first, std::int64_t count, float scale, Value* scratch,
                 typename Kind::Code* codes) {
    const std::int64_t dim = rows.dim();
    if (!(scale > 0)) {
        std::fill_n(codes, count * dim, typename Kind::Code{0});
        return;
    }
    for (std::int64_t i = 0; i < count; ++i, codes += dim) {
        const Value* __restrict row = core::row_as<Value>(rows.at(first + i), rows.dtype(), dim, scratch);
        typename Kind::Code* __restrict to = codes;
        for (std::int64_t k = 0; k < dim; ++k) to[k] = Kind::code(row[k] / Value{scale});
    }
}

/// Calls f(first group, last group, scratch memory of a row) on several threads, some ten thousand numbers a time.
template <class Value, class F>
void for_groups(const core::TokenRows& rows, std::int64_t groups, std::int64_t group, int threads, F f) {
    const std::int64_t step = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, group * rows.dim()));
    core::parallel_for(core::thread_count(threads), (groups + step - 1) / step, [&](std::int64_t task) {
        const auto scratch = std::make_unique<Value[]>(static_cast<std::size_t>(rows.dim()));
        f(task * step, std::min(groups, (task + 1) * step), scratch.get());
    });
}

/// Groups of `group` rows, each with a scale.
template <class Kind, class Value>
void quantize_groups(const core::TokenRows& rows, std::int64_t groups, std::int64_t group, int threads,
                     typename Kind::Code* codes, float* scale) {
    for_groups<Value>(rows, groups, group, threads, [&](std::int64_t first, std::int64_t last, Value* scratch) {
        for (std::int64_t g = first; g < last; ++g) {
            scale[g] = scale_of<Kind>(rows, g * group, group, scratch);
            write_codes<Kind>(rows, g * group, group, scale[g], scratch, codes + g * group * rows.dim());
        }
    });
}

/// One scale for all.
template <class Kind, class Value>
void quantize_whole(const core::TokenRows& rows, int threads, typename Kind::Code* codes, float* scale) {
    std::vector<float> scales(static_cast<std::size_t>(rows.count()));
    for_groups<Value>(rows, rows.count(), 1, threads, [&](std::int64_t first, std::int64_t last, Value* scratch) {
        for (std::int64_t r = first; r < last; ++r)
            scales[static_cast<std::size_t>(r)] = scale_of<Kind>(rows, r, 1, scratch);
    });
    *scale = 0;
    for (const float s : scales) *scale = !(s <= *scale) ? s : *scale;
    for (const float s : scales) *scale = s == s ? *scale : s;
    for_groups<Value>(rows, rows.count(), 1, threads, [&](std::int64_t first, std::int64_t last, Value* scratch) {
        write_codes<Kind>(rows, first, last - first, *scale, scratch, codes + first * rows.dim());
    });
}

core::Copies copies_on(const Device& device) {
    core::Copies copies;
    copies.on_device = device.kind == Device::Kind::cuda;
    copies.place = {copies.on_device, device.ordinal, device.stream, nullptr};
    return copies;
}

/// Where a device finds the rows.
core::QuantizeCall device_call(const core::TokenRows& rows) {
    const TensorView& view = rows.view();
    if (view.dtype == DType::f64) throw Error(ErrorCode::not_implemented, "X: float64 tokens on a CUDA device");
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    const auto stride = [&](int dimension) { return view.stride[static_cast<std::size_t>(dimension)] * size; };
    core::QuantizeCall call;
    call.rows = static_cast<const std::byte*>(view.data);
    call.dtype = view.dtype;
    call.dim = rows.dim();
    call.length = rows.length();
    call.stride_token = stride(view.ndim - 2);
    if (view.ndim == 3) call.stride_outer = stride(0);
    if (view.ndim == 4) {
        call.inner = view.shape[1];
        call.stride_inner = stride(1);
        call.stride_outer = stride(0);
    }
    return call;
}

/// The call, checked. `scale_ndim`: dimensions of the tokens that the scale has.
template <class Kind>
class Quantizer {
  public:
    Quantizer(const TensorView& tokens, std::size_t scale_ndim, const TensorView& codes, const TensorView& scale,
              const Device& device)
        : device_(device) {
        check_tokens(tokens);
        const std::span<const std::int64_t> shape(tokens.shape.data(), static_cast<std::size_t>(tokens.ndim));
        codes_ = static_cast<typename Kind::Code*>(core::checked_output(codes, Kind::dtype, shape, "codes"));
        scale_ = static_cast<float*>(core::checked_output(scale, DType::f32, shape.first(scale_ndim), "scale"));
        const core::NamedView written[] = {{"codes", codes}, {"scale", scale}};
        const core::NamedView read[] = {{"X", tokens}};
        core::check_disjoint(written, read);
    }
    void groups(const core::TokenRows& rows, std::int64_t count, std::int64_t group, int threads) const {
        if (device_.kind == Device::Kind::cuda) return on_device(rows, count, group);
        if (rows.dtype() == DType::f64)
            return quantize_groups<Kind, double>(rows, count, group, threads, codes_, scale_);
        quantize_groups<Kind, float>(rows, count, group, threads, codes_, scale_);
    }
    void whole(const core::TokenRows& rows, int threads) const {
        if (device_.kind == Device::Kind::cuda) return on_device(rows, 1, rows.count());
        if (rows.dtype() == DType::f64) return quantize_whole<Kind, double>(rows, threads, codes_, scale_);
        quantize_whole<Kind, float>(rows, threads, codes_, scale_);
    }

  private:
    void on_device(const core::TokenRows& rows, std::int64_t groups, std::int64_t group) const {
        const core::QuantizeOnDevice quantize = core::device_quantize();
        if (quantize == nullptr) throw Error(ErrorCode::not_implemented, "X: this build is without CUDA");
        core::QuantizeCall call = device_call(rows);
        call.groups = groups;
        call.group = group;
        call.float8 = Kind::dtype == DType::f8e4m3;
        call.codes = codes_;
        call.scale = scale_;
        quantize({true, device_.ordinal, device_.stream, nullptr}, call);
    }

    const Device& device_;
    typename Kind::Code* codes_ = nullptr;
    float* scale_ = nullptr;
};

/// Up to eight signs as a byte.
template <class Value>
std::uint8_t signs_of(const Value* row, std::int64_t count, bool big) {
    unsigned bits = 0;
    if (count == 8) {
        for (int i = 0; i < 8; ++i) bits |= (row[i] > 0 ? 1U : 0U) << i;
    } else {
        for (std::int64_t i = 0; i < count; ++i) bits |= (row[i] > 0 ? 1U : 0U) << i;
    }
    return big ? core::reversed(static_cast<std::uint8_t>(bits)) : static_cast<std::uint8_t>(bits);
}

/// Those of a row, eight a byte.
template <class Value>
void pack_signs(const Value* row, std::int64_t dim, bool big, std::uint8_t* to) {
    for (std::int64_t k = 0; k < dim; k += 8) *to++ = signs_of(row + k, std::min<std::int64_t>(8, dim - k), big);
}

std::size_t dimensions(const TensorView& tokens, int fewer) {
    return static_cast<std::size_t>(std::max(tokens.ndim - fewer, 0));
}

void device_sign_bits(const TensorView& tokens, bool big, std::uint8_t* to, const Device& device) {
    if (tokens.dtype == DType::f64) throw Error(ErrorCode::not_implemented, "X is float64 on a CUDA device");
    const core::DeviceCodes* codes = core::device_codes();
    if (codes == nullptr) throw Error(ErrorCode::not_implemented, "X is on a CUDA device, and this build has no CUDA");
    core::Copies copies;
    copies.on_device = true;
    copies.place = {true, device.ordinal, device.stream, nullptr};
    const TensorView view = core::readable(copies, tokens);
    core::DeviceRows rows;
    rows.data = view.data;
    rows.dtype = view.dtype;
    rows.dim = view.shape[static_cast<std::size_t>(view.ndim) - 1];
    for (int i = 0; i + 1 < view.ndim; ++i) {
        const auto from = static_cast<std::size_t>(view.ndim - 2 - i);
        rows.shape[2 - i] = view.shape[from];
        rows.stride[2 - i] = view.stride[from];
    }
    codes->sign_bits(copies.place, rows, big, to);
}

}  // namespace

void quantize_int8(const TensorView& tokens, Granularity granularity, const TensorView& codes, const TensorView& scale,
                   int threads, const Device& device) {
    const core::StandardFloatMode mode;
    check_threads(threads);
    const bool by_token = granularity == Granularity::token;
    const Quantizer<Int8> quantizer(tokens, dimensions(tokens, by_token ? 1 : 2), codes, scale, device);
    core::Copies copies = copies_on(device);
    const core::TokenRows rows(copies, tokens);
    quantizer.groups(rows, by_token ? rows.count() : rows.items(), by_token ? 1 : rows.length(), threads);
}

void quantize_fp8(const TensorView& tokens, bool per_tensor, const TensorView& codes, const TensorView& scale,
                  int threads, const Device& device) {
    const core::StandardFloatMode mode;
    check_threads(threads);
    const Quantizer<Float8> quantizer(tokens, per_tensor ? 0 : dimensions(tokens, 1), codes, scale, device);
    core::Copies copies = copies_on(device);
    const core::TokenRows rows(copies, tokens);
    if (per_tensor) return quantizer.whole(rows, threads);
    quantizer.groups(rows, rows.count(), 1, threads);
}

void sign_bits(const TensorView& tokens, bool big, const TensorView& bits, const Options& options) {
    const core::StandardFloatMode mode;
    check_threads(options.threads);
    check_tokens(tokens);
    std::array<std::int64_t, TensorView::max_ndim> shape = tokens.shape;
    const auto rank = static_cast<std::size_t>(tokens.ndim);
    const std::int64_t bytes = (shape[rank - 1] + 7) / 8;
    shape[rank - 1] = bytes;
    auto* to = static_cast<std::uint8_t*>(core::checked_output(bits, DType::u8, std::span(shape).first(rank), "out"));
    const core::NamedView written[] = {{"out", bits}};
    const core::NamedView read[] = {{"X", tokens}};
    core::check_disjoint(written, read);
    if (options.device.kind == Device::Kind::cuda) return device_sign_bits(tokens, big, to, options.device);
    core::Copies copies;
    const core::TokenRows rows(copies, tokens);
    const auto pack = [&](auto zero) {
        using Value = decltype(zero);
        for_groups<Value>(rows, rows.count(), 1, options.threads,
                          [&](std::int64_t first, std::int64_t last, Value* scratch) {
                              for (std::int64_t r = first; r < last; ++r) {
                                  const Value* row = core::row_as<Value>(rows.at(r), rows.dtype(), rows.dim(), scratch);
                                  pack_signs(row, rows.dim(), big, to + r * bytes);
                              }
                          });
    };
    tokens.dtype == DType::f64 ? pack(double{}) : pack(float{});
}

}  // namespace rowmax
