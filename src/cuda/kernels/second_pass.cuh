// What remains when a pair was worked on by several blocks: parts of a document are joined, sums of groups added.
#pragma once

#include "cuda/kernels/scores.cuh"

namespace rowmax::cuda {

inline constexpr int second_pass_threads = 128;

/// One thread a pair: the groups in order.
__global__ void __launch_bounds__(second_pass_threads) add_groups(const __grid_constant__ Arguments call) {
    const std::int64_t pair = std::int64_t{blockIdx.x} * second_pass_threads + threadIdx.x;
    if (pair >= call.params.pairs.count) return;
    const float* groups = call.plan.group_sums + pair * call.plan.groups;
    double total = 0;
    // Many loads under way at once: nothing else takes time here.
#pragma unroll 32
    for (int g = 0; g < call.plan.groups; ++g) total += static_cast<double>(groups[g]);
    static_cast<float*>(call.outputs.scores)[pair] = static_cast<float>(total);
}

/// One warp a pair, 32 query tokens at a time: the maximum over the document's parts, then the sum.
__global__ void __launch_bounds__(second_pass_threads) join_parts(const __grid_constant__ Arguments call) {
    const core::Params& params = call.params;
    const std::int64_t pair = (std::int64_t{blockIdx.x} * second_pass_threads + threadIdx.x) / 32;
    if (pair >= params.pairs.count) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const core::Segment query = params.q.at(params.pairs.query(pair));
    double total = 0;
    for (std::int64_t first = 0; first < params.q.max_length; first += 32) {
        const std::int64_t position = first + lane;
        const bool in_query = position < params.q.max_length;
        Maximum<true> best;
        const int parts = in_query ? call.plan.parts : 0;
        // Several loads under way at once.
#pragma unroll 8
        for (int part = 0; part < parts; ++part) {
            const std::int64_t at = (pair * call.plan.parts + part) * params.q.max_length + position;
            join(best, {call.plan.part_maxima[at], call.plan.part_index[at]});
        }
        const bool counts = best.token >= 0 && position < query.length && params.q.keeps(query, position);
        if (in_query) {
            const std::int64_t at = pair * params.q.max_length + position;
            if (call.row_factors) best.value *= call.plan.row_factors[at];
            if (call.outputs.index != nullptr) call.outputs.write_index(at, counts ? best.token : -1);
            if (call.outputs.similarity != nullptr) {
                static_cast<float*>(call.outputs.similarity)[at] = counts ? best.value : 0.0F;
            }
        }
        const float oct = sum_of_oct<1>(counts ? best.value : 0.0F);
        const float group = oct + exchange(oct, 8);
        total += static_cast<double>(from_lane(group, 0));
        if (first + 16 < params.q.max_length) total += static_cast<double>(from_lane(group, 16));
    }
    // As RowPlace::adds.
    if (query.length > params.q.max_length) total = not_a_number;
    if (lane == 0) static_cast<float*>(call.outputs.scores)[pair] = static_cast<float>(total);
}

}  // namespace rowmax::cuda
