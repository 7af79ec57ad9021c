// The units that a thread block works on: one run of consecutive units for each block of the grid.
#pragma once

#include <cstdint>

#include "cuda/kernels/plan.hpp"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

struct Share {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// Looks for the first packed document that starts at or behind `position`, where each document counts
/// document_overhead tokens more than it has. A whole warp together: 32 probes a step.
struct DocumentSearch {
    std::int64_t position = 0;
    std::int64_t low = 0;
    std::int64_t high = 0;
    std::int64_t step = 0;
    bool behind = true;

    [[nodiscard]] __device__ __forceinline__ bool done() const { return low >= high; }

    __device__ __forceinline__ void probe(const core::Segments& documents) {
        step = (high - low + 31) / 32;
        const std::int64_t at = low + static_cast<int>(threadIdx.x % 32) * step;
        behind = true;
        if (at >= high) return;
        const std::int64_t start = core::detail::read_int(documents.starts, documents.wide_starts, at);
        behind = core::detail::clamp(start, 0, documents.total_rows) + at * document_overhead >= position;
    }

    __device__ __forceinline__ void narrow() {
        const std::uint32_t lanes = ballot(behind);
        const int first = lanes == 0 ? 32 : __ffs(static_cast<int>(lanes)) - 1;
        const std::int64_t next_low = first == 0 ? low : low + (first - 1) * step + 1;
        const std::int64_t next_high = first == 32 ? high : low + first * step;
        high = first == 0 ? low : (next_high < high ? next_high : high);
        low = next_low;
    }
};

/// Shares by tokens: a boundary is a place in the packed tokens of one row block after the other. Out of line, as what
/// common calls do not need lies between the instructions that they wait for.
inline __device__ __noinline__ Share share_by_tokens(const core::Params& params, const Plan& plan) {
    const std::int64_t tokens = params.d.total_rows + params.d.count * document_overhead;
    std::int64_t row_block[2];
    DocumentSearch search[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const std::int64_t position = plan.blocks * tokens * (blockIdx.x + i) / gridDim.x;
        row_block[i] = plan.blocks == 1 ? 0 : position / tokens;
        search[i].position = position - row_block[i] * tokens;
        search[i].high = params.d.count;
    }
    // Both at once: their loads are under way together.
    while (!search[0].done() || !search[1].done()) {
        search[0].probe(params.d);
        search[1].probe(params.d);
        search[0].narrow();
        search[1].narrow();
    }
    const std::int64_t end = blockIdx.x + 1 == gridDim.x ? plan.units() : row_block[1] * plan.width + search[1].low;
    return {row_block[0] * plan.width + search[0].low, end};
}

/// Called by a whole warp.
__device__ __forceinline__ Share share_of(const core::Params& params, const Plan& plan) {
    if (plan.by_tokens) return share_by_tokens(params, plan);
    return {first_unit(plan, blockIdx.x), first_unit(plan, blockIdx.x + 1)};
}

}  // namespace rowmax::cuda
