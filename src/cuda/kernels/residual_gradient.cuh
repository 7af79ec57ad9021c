// The gradient of query tokens beside residual documents: the decoded tokens that won, times the gradients of their
// pairs' scores. A warp takes a run of 256 pairs of a query token and adds them in order; a second kernel adds the runs
// in order.
#pragma once

#include "cuda/kernels/residual_kernels.hpp"
#include "cuda/kernels/residual_values.cuh"
#include "cuda/kernels/row_values.cuh"
#include "cuda/kernels/winner.cuh"

namespace rowmax::cuda {

/// What a decoded token is multiplied by to have norm 1, by a warp.
inline __device__ float inverse_norm_by_warp(const ResidualArguments& call, const ResidualToken& token) {
    const auto dim = static_cast<int>(call.call.params.dim);
    const int lane = static_cast<int>(threadIdx.x % 32);
    float largest = 0;
    for (int k = lane; k < dim; k += 32) largest = fmaxf(largest, fabsf(decoded(call, token, k)));
    largest = largest_of_warp(largest);
    if (largest == 0) return 0;
    const float scale = largest < __builtin_huge_valf() ? power_of_two(-ilogbf(largest)) : 1.0F;
    float sum = 0;
    for (int k = lane; k < dim; k += 32) {
        const float x = decoded(call, token, k) * scale;
        sum = fmaf(x, x, sum);
    }
    return inverse_root(sum_of_warp(sum)) * scale;
}

/// Pairs of a query, as they follow one another.
__device__ __forceinline__ std::int64_t pairs_of_query(const core::Pairs& pairs) {
    return pairs.kind == core::PairKind::zipped ? 1 : pairs.width;
}

__global__ void __launch_bounds__(32 * residual_warps)
    residual_gradient_runs(const __grid_constant__ ResidualGradientArguments call) {
    extern __shared__ float sums[];  // [residual_warps][d]
    const core::Params& params = call.residual.call.params;
    const std::int64_t number = std::int64_t{blockIdx.x} * residual_warps + threadIdx.x / 32;
    if (number >= params.q.total_rows * call.runs) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const auto dim = static_cast<int>(params.dim);
    float* sum = sums + threadIdx.x / 32 * dim;
    for (int k = lane; k < dim; k += 32) sum[k] = 0;
    const std::int64_t row = number / call.runs;
    const TokenPlace place = place_of_row(params.q, row);
    const bool counts = place.item >= 0 && place.token < params.q.max_length;
    const std::int64_t each = pairs_of_query(params.pairs);
    const std::int64_t begin = (number - row * call.runs) * sources_per_run;
    const std::int64_t end = begin + sources_per_run < each ? begin + sources_per_run : each;
    for (std::int64_t i = begin; counts && i < end; ++i) {
        const std::int64_t pair = place.item * each + i;
        const std::int64_t won = winner(call.gradients, pair * params.q.max_length + place.token);
        const std::int64_t document = params.pairs.kind == core::PairKind::cross ? i : pair;
        const core::Segment segment = params.d.at(document);
        if (won < 0 || won >= segment.length) continue;
        const std::int64_t code = call.residual.codes == nullptr
                                      ? 0
                                      : call.residual.steps.first(params.d, document) + won * call.residual.steps.token;
        const ResidualToken token{segment.data + won * params.d.row_stride, code_at(call.residual, code)};
        float factor = static_cast<const float*>(call.gradients.scores)[pair];
        if (call.residual.normalize) factor *= inverse_norm_by_warp(call.residual, token);
        for (int k = lane; k < dim; k += 32) sum[k] = fmaf(decoded(call.residual, token, k), factor, sum[k]);
    }
    for (int k = lane; k < dim; k += 32) call.sums[number * dim + k] = sum[k];
}

__device__ __forceinline__ void store_number(void* data, DType dtype, std::int64_t at, float value) {
    if (dtype == DType::f16) {
        static_cast<__half*>(data)[at] = __float2half_rn(value);
    } else if (dtype == DType::bf16) {
        static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
    } else {
        static_cast<float*>(data)[at] = value;
    }
}

/// A thread a number of the gradient.
__global__ void __launch_bounds__(32 * residual_warps)
    residual_gradient_sum(const __grid_constant__ ResidualGradientArguments call) {
    const core::Params& params = call.residual.call.params;
    const std::int64_t at = std::int64_t{blockIdx.x} * (32 * residual_warps) + threadIdx.x;
    if (at >= params.q.total_rows * params.dim) return;
    const std::int64_t row = at / params.dim;
    float total = 0;
    for (std::int64_t run = 0; run < call.runs; ++run) {
        total += call.sums[(row * call.runs + run) * params.dim + at - row * params.dim];
    }
    store_number(call.gradients.q, call.residual.query_dtype, at, total);
}

}  // namespace rowmax::cuda
