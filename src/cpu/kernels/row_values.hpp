// Token rows as the compute type: widened from 16 bits, and with their inverse norms.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
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

/// A row of the tokens' type as a row of Values: itself, or its widened copy in `scratch`.
inline const std::byte* widened(const TileOps& ops, DType dtype, const std::byte* row, void* scratch,
                                std::int64_t dim) {
    if (!is_half(dtype)) return row;
    (dtype == DType::f16 ? ops.widen_f16 : ops.widen_bf16)(row, static_cast<float*>(scratch), dim);
    return static_cast<const std::byte*>(scratch);
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
