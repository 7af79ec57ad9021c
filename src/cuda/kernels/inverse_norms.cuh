// With normalize: one over the norms of the rows that are added, found once.
#pragma once

#include "cuda/kernels/row_values.cuh"
#include "cuda/kernels/winner.cuh"

namespace rowmax::cuda {

inline constexpr int norm_threads = 256;

/// One warp a row: one over its norm, cut to the largest float; 0 for a row of zeros.
template <TokenType Type, bool Vector>
__global__ void __launch_bounds__(norm_threads) inverse_norms(const __grid_constant__ NormArguments call) {
    using Values = RowValues<Type, Vector>;
    const std::int64_t row = (std::int64_t{blockIdx.x} * norm_threads + threadIdx.x) / 32;
    if (row >= call.side.total_rows) return;
    const std::byte* token = storage_row(call.side, row);
    const auto dim = static_cast<int>(call.dim);
    const float scale = scale_of_row<Type, Vector>(token, dim);
    float squares = 0;
    for (int first = 0; first < dim; first += slice_elements) {
        float x[lane_elements];
        Values::widened(Values::load(token, first, dim), x);
#pragma unroll
        for (const float value : x) squares = fmaf(value * scale, value * scale, squares);
    }
    squares = sum_of_warp(squares);
    if (threadIdx.x % 32 == 0) call.inverse[row] = scale == 0 ? 0.0F : inverse_of({scale, 1.0F / sqrtf(squares)});
}

}  // namespace rowmax::cuda
