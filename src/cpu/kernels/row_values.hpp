// Token rows as the compute type: widened from 16 bits, and with their inverse norms.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/half.hpp"
#include "core/params.hpp"
#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {

template <class Value>
const TypedOps<Value>& typed(const TileOps& ops) {
    if constexpr (std::is_same_v<Value, float>) {
        return ops.f32;
    } else {
        return ops.f64;
    }
}

inline bool is_half(DType dtype) {
    return dtype == DType::f16 || dtype == DType::bf16;
}

inline bool has_scales(const core::Params& params) {
    return params.compressed != nullptr && params.compressed->coding == core::Coding::scaled;
}

inline const core::Residual* residual_of(const core::Params& params) {
    const bool is = params.compressed != nullptr && params.compressed->coding == core::Coding::residual;
    return is ? &params.compressed->residual : nullptr;
}

/// The function that multiplies rows by a matrix, and the columns of a panel.
template <class Value>
auto project_function(const TileOps& ops) {
    if constexpr (std::is_same_v<Value, float>) {
        return ops.project->f32;
    } else {
        return ops.project->f64;
    }
}
template <class Value>
std::int64_t project_lanes(const TileOps& ops) {
    return std::is_same_v<Value, float> ? ops.project->f32_lanes : ops.project->f64_lanes;
}

/// The functions of tokens that are multiplied as words of codes; null for numbers.
inline const CodeOps* code_ops_of(const TileOps& ops, const core::Params& params) {
    if (params.dtype == DType::i8) return &ops.codes;
    const bool bits = params.compressed != nullptr && params.compressed->coding == core::Coding::bits;
    return bits ? &ops.bits : nullptr;
}

/// The functions that fold a problem's rows.
template <class Value>
const TypedOps<Value>& fold_ops(const TileOps& ops, const core::Params& params) {
    if constexpr (std::is_same_v<Value, float>) {
        if (const CodeOps* codes = code_ops_of(ops, params)) return codes->fold;
    }
    return typed<Value>(ops);
}

/// Values of a row as those functions take it.
inline std::int64_t steps_of(const TileOps& ops, const core::Params& params) {
    const CodeOps* codes = code_ops_of(ops, params);
    return codes == nullptr ? params.dim : (params.dim + codes->in_word - 1) / codes->in_word;
}

/// Values of one lane of a query panel.
inline std::int64_t panel_height(const TileOps& ops, const core::Params& params) {
    return steps_of(ops, params) + (code_ops_of(ops, params) != nullptr ? 1 : 0);
}

/// A document row of the tokens' type as a row of Values: itself, or its widened copy in `scratch`.
inline const std::byte* widened(const TileOps& ops, DType dtype, const std::byte* row, void* scratch,
                                std::int64_t dim) {
    switch (dtype) {
        case DType::i8: ops.codes.widen(row, static_cast<float*>(scratch), dim); break;
        case DType::u8: ops.bits.widen(row, static_cast<float*>(scratch), dim); break;
        case DType::f8e4m3: ops.widen_f8(row, static_cast<float*>(scratch), dim); break;
        case DType::f16: ops.widen_f16(row, static_cast<float*>(scratch), dim); break;
        case DType::bf16: ops.widen_bf16(row, static_cast<float*>(scratch), dim); break;
        default: return row;
    }
    return static_cast<const std::byte*>(scratch);
}

/// A query row of sign bits as words, and behind them how many there are.
inline const std::byte* query_bits(const CodeOps& ops, const std::byte* row, void* scratch, std::int64_t dim) {
    auto* words = static_cast<float*>(scratch);
    ops.widen(row, words, dim);
    const auto count = static_cast<std::int32_t>(dim);
    std::memcpy(words + (dim + 31) / 32, &count, sizeof(count));
    return static_cast<const std::byte*>(scratch);
}

/// A query row of codes as words, and behind them what makes up for the offset of the documents' codes.
inline const std::byte* query_words(const CodeOps& ops, const std::byte* row, void* scratch, std::int64_t dim) {
    auto* to = static_cast<std::byte*>(scratch);
    std::int32_t sum = 0;
    const std::int64_t size = 4 / ops.in_word;
    const std::int64_t padded = (dim + ops.in_word - 1) / ops.in_word * ops.in_word;
    for (std::int64_t k = 0; k < padded; ++k) {
        const auto code = static_cast<std::int16_t>(k < dim ? core::load<std::int8_t>(row + k) : 0);
        sum += code;
        std::memcpy(to + k * size, &code, static_cast<std::size_t>(size));  // little endian: the low byte first
    }
    sum *= -ops.offset;
    std::memcpy(to + padded * size, &sum, sizeof(sum));
    return to;
}

/// Norms in this range neither overflow nor vanish when they are squared, or multiplied with each other.
template <class Value>
bool ordinary(double sum_of_squares) {
    constexpr double limit = std::is_same_v<Value, float> ? 0x1p60 : 0x1p600;
    return sum_of_squares > 1 / limit && sum_of_squares < limit;
}

/// The slow part of inverse_norm: a row of zeros, of very large or small numbers, or with NaN or infinity in it.
template <class Value>
Value inverse_norm_of_odd_row(const TileOps& ops, const std::byte*& row, Value* scratch, std::int64_t dim) {
    const auto at = [&](std::int64_t k) { return core::load<Value>(row + k * std::int64_t{sizeof(Value)}); };
    Value largest = 0;
    for (std::int64_t k = 0; k < dim; ++k) {
        const Value x = std::fabs(at(k));
        if (!(x <= std::numeric_limits<Value>::max())) return std::numeric_limits<Value>::quiet_NaN();
        largest = x > largest ? x : largest;
    }
    if (largest == 0) return 0;
    const int exponent = std::ilogb(largest);
    for (std::int64_t k = 0; k < dim; ++k) scratch[k] = std::ldexp(at(k), -exponent);
    row = reinterpret_cast<const std::byte*>(scratch);
    return static_cast<Value>(1 / std::sqrt(typed<Value>(ops).sum_squares(row, dim)));
}

/// 1 / |row|, 0 for a row of zeros, NaN for one that holds NaN or infinity. A row whose squares would leave the range
/// of Value is replaced by a copy in `scratch`, scaled by a power of two. `scratch` may be the row itself.
template <class Value>
Value inverse_norm(const TileOps& ops, const std::byte*& row, Value* scratch, std::int64_t dim) {
    const double sum = typed<Value>(ops).sum_squares(row, dim);
    if (ordinary<Value>(sum)) return static_cast<Value>(1 / std::sqrt(sum));
    return inverse_norm_of_odd_row(ops, row, scratch, dim);
}

}  // namespace rowmax::cpu
