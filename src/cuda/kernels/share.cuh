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

/// The first packed document that starts at or behind `position`, where each document counts document_overhead tokens
/// more than it has. Called by a whole warp: 32 probes a step.
__device__ __forceinline__ std::int64_t first_document_at(const core::Segments& documents, std::int64_t position) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    std::int64_t low = 0;
    std::int64_t high = documents.count;
    while (low < high) {
        const std::int64_t step = (high - low + 31) / 32;
        const std::int64_t probe = low + lane * step;
        bool behind = true;
        if (probe < high) {
            const std::int64_t start = core::detail::read_int(documents.starts, documents.wide_starts, probe);
            behind = core::detail::clamp(start, 0, documents.total_rows) + probe * document_overhead >= position;
        }
        const std::uint32_t lanes = ballot(behind);
        const int first = lanes == 0 ? 32 : __ffs(static_cast<int>(lanes)) - 1;
        const std::int64_t next_low = first == 0 ? low : low + (first - 1) * step + 1;
        const std::int64_t next_high = first == 32 ? high : low + first * step;
        high = first == 0 ? low : (next_high < high ? next_high : high);
        low = next_low;
    }
    return low;
}

__device__ __forceinline__ std::int64_t boundary(const core::Params& params, const Plan& plan, std::int64_t block,
                                                 std::int64_t grid) {
    if (!plan.by_tokens) return plan.units() * block / grid;
    if (block == grid) return plan.units();
    const std::int64_t tokens = params.d.total_rows + params.d.count * document_overhead;
    const std::int64_t position = plan.blocks * tokens * block / grid;
    return position / tokens * plan.width + first_document_at(params.d, position % tokens);
}

/// Called by a whole warp.
__device__ __forceinline__ Share share_of(const core::Params& params, const Plan& plan) {
    return {boundary(params, plan, blockIdx.x, gridDim.x), boundary(params, plan, blockIdx.x + 1, gridDim.x)};
}

}  // namespace rowmax::cuda
