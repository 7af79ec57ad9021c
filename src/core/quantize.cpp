// Quantisers: tokens as codes with scales.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>

#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/parallel.hpp"
#include "core/token_rows.hpp"
#include "rowmax/compressed.hpp"

namespace rowmax {

namespace {

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

template <class Value>
bool finite(const Value* row, std::int64_t dim) {
    bool all = true;
    for (std::int64_t k = 0; k < dim; ++k) all &= std::fabs(row[k]) <= std::numeric_limits<Value>::max();
    return all;
}

template <class Value>
Value largest(const Value* row, std::int64_t dim) {
    Value most = 0;
    for (std::int64_t k = 0; k < dim; ++k) most = std::max(most, std::fabs(row[k]));
    return most;
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

template <class Value>
void write_codes(const Value* row, float scale, std::int64_t dim, std::int8_t* codes) {
    for (std::int64_t k = 0; k < dim; ++k) {
        const Value code = round_even(row[k] / Value{scale});
        codes[k] = static_cast<std::int8_t>(std::clamp(code, Value{-127}, Value{127}));
    }
}

/// One group of rows that share a scale.
template <class Value>
float quantize_group(const core::TokenRows& rows, std::int64_t first, std::int64_t count, Value* scratch,
                     std::int8_t* codes) {
    const std::int64_t dim = rows.dim();
    const auto row = [&](std::int64_t i) {
        return core::row_as<Value>(rows.at(first + i), rows.dtype(), dim, scratch);
    };
    Value most = 0;
    bool ordinary = true;
    for (std::int64_t i = 0; i < count; ++i) {
        const Value* values = row(i);
        ordinary = ordinary && finite(values, dim);
        most = std::max(most, largest(values, dim));
    }
    auto scale = static_cast<float>(most / 127);
    if (!ordinary || !std::isfinite(scale)) scale = std::numeric_limits<float>::quiet_NaN();
    if (!(scale > 0)) {
        std::fill_n(codes, count * dim, std::int8_t{0});
        return scale;
    }
    for (std::int64_t i = 0; i < count; ++i) write_codes(row(i), scale, dim, codes + i * dim);
    return scale;
}

template <class Value>
void quantize_groups(const core::TokenRows& rows, std::int64_t group, int threads, std::int8_t* codes, float* scale) {
    const std::int64_t groups = group == 1 ? rows.count() : rows.items();
    // Some ten thousand numbers a task.
    const std::int64_t step = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, group * rows.dim()));
    core::parallel_for(core::thread_count(threads), (groups + step - 1) / step, [&](std::int64_t task) {
        const auto scratch = std::make_unique<Value[]>(static_cast<std::size_t>(rows.dim()));
        for (std::int64_t g = task * step; g < std::min(groups, (task + 1) * step); ++g) {
            scale[g] = quantize_group(rows, g * group, group, scratch.get(), codes + g * group * rows.dim());
        }
    });
}

}  // namespace

void quantize_int8(const TensorView& tokens, Granularity granularity, const TensorView& codes, const TensorView& scale,
                   int threads) {
    const core::StandardFloatMode mode;
    check_tokens(tokens);
    const bool by_token = granularity == Granularity::token;
    const std::span<const std::int64_t> shape(tokens.shape.data(), static_cast<std::size_t>(tokens.ndim));
    auto* code = static_cast<std::int8_t*>(core::checked_output(codes, DType::i8, shape, "codes"));
    auto* factor = static_cast<float*>(
        core::checked_output(scale, DType::f32, shape.first(shape.size() - (by_token ? 1 : 2)), "scale"));
    const core::NamedView written[] = {{"codes", codes}, {"scale", scale}};
    const core::NamedView read[] = {{"X", tokens}};
    core::check_disjoint(written, read);
    core::Copies copies;
    const core::TokenRows rows(copies, tokens);
    const std::int64_t group = by_token ? 1 : rows.length();
    const auto run = tokens.dtype == DType::f64 ? quantize_groups<double> : quantize_groups<float>;
    run(rows, group, threads, code, factor);
}

}  // namespace rowmax
