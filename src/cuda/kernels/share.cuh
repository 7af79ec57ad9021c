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

/// Looks for the first packed document that starts at or behind `place`, where each document counts document_overhead
/// tokens more than it has. A whole warp together: 128 probes a step, since each step waits for memory.
template <class Start>
struct DocumentSearch {
    static constexpr int probes = 4;  ///< of a lane, all under way together
    std::int64_t place = 0;
    unsigned low = 0;
    unsigned high = 0;
    unsigned step = 0;
    Start starts[probes];

    [[nodiscard]] __device__ __forceinline__ bool done() const { return low >= high; }
    [[nodiscard]] __device__ __forceinline__ unsigned at(int probe) const {
        return low + (threadIdx.x % 32 + 32 * static_cast<unsigned>(probe)) * step;
    }

    __device__ __forceinline__ void ask(const Start* of) {
        constexpr unsigned together = 32 * probes;
        step = (high - low + together - 1) / together;
#pragma unroll
        for (int i = 0; i < probes; ++i) starts[i] = at(i) < high ? of[at(i)] : 0;
    }

    __device__ __forceinline__ void narrow(std::int64_t rows) {
        unsigned before = 0;
#pragma unroll
        for (int i = 0; i < probes; ++i) {
            const std::int64_t start = core::detail::clamp(starts[i], 0, rows) + at(i) * document_overhead;
            before += static_cast<unsigned>(__popc(ballot(at(i) < high && start < place)));
        }
        const unsigned next = low + before * step;
        high = before == 0 ? low : (next < high ? next : high);
        low = before == 0 ? low : low + (before - 1) * step + 1;
    }
};

template <class Start>
__device__ __forceinline__ Share share_by_tokens(const Start* starts, const core::Params& params, const Plan& plan) {
    std::int64_t row_block[2];
    DocumentSearch<Start> search[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        search[i].place = share_begin(plan, blockIdx.x + i);
        row_block[i] = plan.blocks == 1 ? 0 : search[i].place / plan.tokens;
        search[i].place -= row_block[i] * plan.tokens;
        search[i].high = static_cast<unsigned>(plan.width);
    }
    // Both at once: their loads are under way together.
    while (!search[0].done() || !search[1].done()) {
        search[0].ask(starts);
        search[1].ask(starts);
        search[0].narrow(params.d.total_rows);
        search[1].narrow(params.d.total_rows);
    }
    const std::int64_t end = blockIdx.x + 1 == gridDim.x ? plan.units() : row_block[1] * plan.width + search[1].low;
    return {row_block[0] * plan.width + search[0].low, end};
}

/// Shares by tokens: a boundary is a place in the packed tokens of one row block after the other. Out of line, as what
/// common calls do not need lies between the instructions that they wait for.
inline __device__ __noinline__ Share share_by_tokens(const core::Params& params, const Plan& plan) {
    if (params.d.wide_starts) {
        return share_by_tokens(static_cast<const std::int64_t*>(params.d.starts), params, plan);
    }
    return share_by_tokens(static_cast<const std::int32_t*>(params.d.starts), params, plan);
}

/// Called by a whole warp.
__device__ __forceinline__ Share share_of(const core::Params& params, const Plan& plan) {
    if (plan.by_tokens) return share_by_tokens(params, plan);
    return {share_begin(plan, blockIdx.x), share_begin(plan, blockIdx.x + 1)};
}

}  // namespace rowmax::cuda
