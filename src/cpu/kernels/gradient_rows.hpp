// Rows of a gradient: the sum over sources, the way back through x / |x|, and the result in the tokens' type.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/half.hpp"
#include "core/params.hpp"
#include "cpu/kernels/row_values.hpp"

namespace rowmax::cpu {

/// sum += factor * row, or factor * row / |row| with `normalize`. `scratch` holds one row.
template <class Value>
void add_source(const TileOps& ops, const core::Params& params, const std::byte* row, Value factor, Value* sum,
                Value* scratch) {
    row = widened(ops, params.dtype, row, scratch, params.dim);
    if (params.normalize) factor *= inverse_norm(ops, row, scratch, params.dim);
    typed<Value>(ops).add_scaled(sum, row, factor, params.dim);
}

/// Turns the gradient of u = x / |x| into that of x, a row of Values: (g - (g . u) u) / |x|. In double, since 1 / |x|
/// may exceed float.
template <class Value>
void through_norm(const std::byte* row, Value* gradient, std::int64_t dim) {
    const auto at = [&](std::int64_t k) { return double{core::load<Value>(row + k * std::int64_t{sizeof(Value)})}; };
    double largest = 0;
    for (std::int64_t k = 0; k < dim; ++k) largest = std::fmax(largest, std::fabs(at(k)));
    if (largest == 0) {
        for (std::int64_t k = 0; k < dim; ++k) gradient[k] = 0;
        return;
    }
    double squares = 0;
    double along = 0;
    for (std::int64_t k = 0; k < dim; ++k) {
        const double x = at(k) / largest;
        squares += x * x;
        along += double{gradient[k]} * x;
    }
    const double norm = std::sqrt(squares);
    for (std::int64_t k = 0; k < dim; ++k) {
        const double tangent = double{gradient[k]} - along / squares * (at(k) / largest);
        gradient[k] = static_cast<Value>(tangent / norm / largest);
    }
}

/// The same where x is a token.
template <class Value>
void through_norm(const TileOps& ops, const core::Params& params, const std::byte* row, Value* gradient,
                  Value* scratch) {
    row = widened(ops, core::query_dtype(params), row, scratch, params.dim);  // residuals have no gradient
    through_norm(row, gradient, params.dim);
}

/// Writes a finished row, rounded once to the tokens' type.
template <class Value>
void write_row(DType dtype, const Value* gradient, std::byte* to, std::int64_t dim) {
    if (!is_half(dtype)) {
        std::memcpy(to, gradient, static_cast<std::size_t>(dim) * sizeof(Value));
        return;
    }
    const auto narrow = dtype == DType::f16 ? core::float_to_half : core::float_to_bfloat;
    for (std::int64_t k = 0; k < dim; ++k) {
        const std::uint16_t bits = narrow(static_cast<float>(gradient[k]));
        std::memcpy(to + 2 * k, &bits, sizeof(bits));
    }
}

}  // namespace rowmax::cpu
