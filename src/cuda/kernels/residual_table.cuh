// Centroids as residual_rows.cuh reads them: a warp a centroid.
#pragma once

#include "cuda/kernels/half_parts.cuh"
#include "cuda/kernels/residual_kernels.hpp"
#include "cuda/kernels/residual_values.cuh"

namespace rowmax::cuda {

__global__ void __launch_bounds__(32 * residual_table_warps)
    residual_table(const __grid_constant__ ResidualArguments call) {
    const std::int64_t number = std::int64_t{blockIdx.x} * residual_table_warps + threadIdx.x / 32;
    if (number >= call.table.count) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::int64_t dim = call.call.params.dim;
    const std::int64_t row = residual_row(dim);
    const std::byte* from = call.centroids + number * call.centroid_stride;
    const auto value = [&](std::int64_t at) {
        return call.centroids != nullptr && at < dim ? element_of(from, call.centroid_dtype, at) : 0.0F;
    };
    float largest = 0;
    for (std::int64_t at = lane; at < dim; at += 32) largest = fmaxf(largest, fabsf(value(at)));
    const float scale = call.table.parts == 2 ? scale_for_parts(largest_of_warp(largest)) : 1.0F;
    auto* to = reinterpret_cast<__half*>(call.table.rows) + number * call.table.parts * row;
    float sum = 0;
    for (std::int64_t at = lane; at < row; at += 32) {
        const float x = value(at);
        sum = fmaf(x, x, sum);
        const std::int64_t place = at / residual_lane_dims * residual_lane_dims +
                                   residual_slot(call.nbits, static_cast<int>(at % residual_lane_dims));
        const HalfParts parts = half_parts(x * scale);
        to[place] = parts.high;
        if (call.table.parts == 2) to[row + place] = parts.low;
    }
    sum = sum_of_warp(sum);
    if (lane == 0) call.table.rest[number] = make_float2(sum, 1.0F / scale);
}

}  // namespace rowmax::cuda
