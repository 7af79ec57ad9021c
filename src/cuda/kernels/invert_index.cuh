// The inverse grid: a stable counting sort of each document's sources by the token that they chose.
//
// A thread block sorts one block of a document's sources, a window of tokens at a time. Each warp owns a piece of
// consecutive sources and counts of its own; the counts of all warps, token by token, are turned into places by a
// prefix sum; then each warp puts its sources there, 32 at a time, those of one token in the order of the lanes.
#pragma once

#include "cuda/kernels/backward_plan.hpp"
#include "cuda/kernels/winner.cuh"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

/// The sources of one block of a document, and the tokens that they chose.
struct SourceBlock {
    const InvertArguments& call;
    std::int64_t document;
    std::int64_t length;  ///< of the document
    std::int64_t first;   ///< source of the document
    int count;

    __device__ SourceBlock(const InvertArguments& arguments, std::int64_t item, int block)
        : call(arguments),
          document(item),
          length(arguments.params.d.at(item).length),
          first(std::int64_t{block} << arguments.grid.shift) {
        const std::int64_t left = arguments.grid.sources - first;
        const int most = 1 << arguments.grid.shift;
        count = static_cast<int>(left < most ? left : most);
    }

    /// -1: none, or the index lies.
    [[nodiscard]] __device__ __forceinline__ int token(int source) const {
        if (source >= count) return -1;
        const core::Params& params = call.params;
        const bool cross = params.pairs.kind == core::PairKind::cross;
        const std::int64_t number = first + source;
        const std::int64_t query = cross ? core::detail::quotient(number, params.q.max_length) : 0;
        const std::int64_t position = number - query * params.q.max_length;
        const std::int64_t pair = cross ? query * params.pairs.width + document : document;
        if (params.q.kind != core::SegmentKind::strided && position >= params.q.at(params.pairs.query(pair)).length) {
            return -1;
        }
        const std::int64_t chosen = winner(call.gradients, pair * params.q.max_length + position);
        return chosen < length ? static_cast<int>(chosen) : -1;
    }
};

/// Calls f(source, token) for the sources [first, last), which is the same for all lanes, in steps of 32.
template <class F>
__device__ __forceinline__ void each_source(const SourceBlock& block, int first, int last, F f) {
    constexpr int ahead = 4;  // loads on their way
    const int lane = static_cast<int>(threadIdx.x % 32);
    for (int step = first; step < last; step += 32 * ahead) {
        int tokens[ahead];
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const int source = step + 32 * i + lane;
            tokens[i] = source < last ? block.token(source) : -1;
        }
#pragma unroll
        for (int i = 0; i < ahead; ++i) f(step + 32 * i + lane, tokens[i]);
    }
}

/// Sum over the lanes before this one; `total` of all.
__device__ __forceinline__ std::uint32_t sum_before(std::uint32_t value, std::uint32_t& total) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    std::uint32_t sum = value;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const std::uint32_t other = __shfl_up_sync(all_lanes, sum, distance);
        if (lane >= distance) sum += other;
    }
    total = from_lane(sum, 31);
    return sum - value;
}

/// The same over the threads of a thread block.
__device__ __forceinline__ std::uint32_t sum_before_in_block(std::uint32_t value, std::uint32_t* of_warps,
                                                             std::uint32_t& total) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int warps = static_cast<int>(blockDim.x / 32);
    std::uint32_t of_warp;
    std::uint32_t before = sum_before(value, of_warp);
    if (threadIdx.x % 32 == 0) of_warps[warp] = of_warp;
    __syncthreads();
    total = 0;
    for (int w = 0; w < warps; ++w) {
        if (w < warp) before += of_warps[w];
        total += of_warps[w];
    }
    __syncthreads();
    return before;
}

/// Counts of two neighbouring tokens lie in one word.
__device__ __forceinline__ std::uint32_t low_half(std::uint32_t word) {
    return word & 0xffffU;
}
__device__ __forceinline__ std::uint32_t high_half(std::uint32_t word) {
    return word >> 16;
}

/// Turns the counts of all warps into places, and writes where the sources of each token start. `place` is that of the
/// first; returns the one past the last.
__device__ __forceinline__ std::uint32_t counts_to_places(std::uint32_t* counts, int words, int bins,
                                                          std::uint32_t place, std::uint16_t* starts,
                                                          std::uint32_t* of_warps) {
    const int warps = static_cast<int>(blockDim.x / 32);
    for (int first = 0; 2 * first < bins; first += static_cast<int>(blockDim.x)) {
        const int word = first + static_cast<int>(threadIdx.x);
        const bool here = 2 * word < bins;
        std::uint32_t sum = 0;  // halves do not overflow: a block has at most 32768 sources
        for (int w = 0; here && w < warps; ++w) sum += counts[w * words + word];
        std::uint32_t total;
        const std::uint32_t before = sum_before_in_block(low_half(sum) + high_half(sum), of_warps, total);
        if (here) {
            std::uint32_t low = place + before;
            std::uint32_t high = low + low_half(sum);
            starts[2 * word] = static_cast<std::uint16_t>(low);
            if (2 * word + 1 < bins) starts[2 * word + 1] = static_cast<std::uint16_t>(high);
            for (int w = 0; w < warps; ++w) {
                const std::uint32_t both = counts[w * words + word];
                counts[w * words + word] = low | (high << 16);
                low += low_half(both);
                high += high_half(both);
            }
        }
        place += total;
    }
    return place;
}

__global__ void __launch_bounds__(32 * invert_warps_most) invert_index(const __grid_constant__ InvertArguments call) {
    extern __shared__ std::uint32_t counts[];  // [warps][window / 2], then the sorted sources of a window
    __shared__ std::uint32_t of_warps[invert_warps_most];
    __shared__ std::uint32_t below[invert_warps_most];
    const InverseGrid& grid = call.grid;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int warps = static_cast<int>(blockDim.x / 32);
    const int slice = static_cast<int>(blockIdx.x % static_cast<unsigned>(call.slices));
    const auto unit = static_cast<int>(blockIdx.x / static_cast<unsigned>(call.slices));
    const int number = unit % grid.blocks;
    const std::int64_t document = unit / grid.blocks;
    const SourceBlock block(call, document, number);
    const int piece = (block.count + 32 * warps - 1) / (32 * warps) * 32;
    const int first = warp * piece;
    const int last = first + piece < block.count ? first + piece : block.count;
    const int words = call.window / 2;
    std::uint32_t* mine = counts + warp * words;
    auto* places = reinterpret_cast<std::uint16_t*>(mine);
    std::uint16_t* starts = grid.starts + number * grid.plane + call.params.d.at(document).first_row + document;
    std::uint16_t* sorted = grid.sorted + document * grid.sources + block.first;
    auto* staged = reinterpret_cast<std::uint16_t*>(counts + warps * words);
    for (std::int64_t low = std::int64_t{slice} * call.window; low < block.length;
         low += std::int64_t{call.slices} * call.window) {
        const auto base = static_cast<int>(low);
        const std::int64_t left = block.length - low;
        const int bins = left < call.window ? static_cast<int>(left) : call.window;
        const auto inside = [&](int token) {
            return static_cast<unsigned>(token - base) < static_cast<unsigned>(bins);
        };
        for (int i = lane; i < words; i += 32) mine[i] = 0;
        __syncwarp();
        std::uint32_t smaller = 0;
        each_source(block, first, last, [&](int, int token) {
            if (inside(token)) atomicAdd(&mine[(token - base) / 2], (token - base) % 2 == 0 ? 1U : 0x10000U);
            smaller += token >= 0 && token < base ? 1 : 0;
        });
        std::uint32_t of_warp;
        sum_before(smaller, of_warp);
        if (lane == 0) below[warp] = of_warp;
        __syncthreads();
        std::uint32_t begin = 0;
        for (int w = 0; w < warps; ++w) begin += below[w];
        const std::uint32_t end = counts_to_places(counts, words, bins, begin, starts + low, of_warps);
        if (threadIdx.x == 0 && low + bins == block.length) starts[block.length] = static_cast<std::uint16_t>(end);
        __syncthreads();
        each_source(block, first, last, [&](int source, int token) {
            const bool taken = inside(token);
            const std::uint32_t same = __match_any_sync(all_lanes, taken ? token : -1);
            const int rank = __popc(same & ((1U << lane) - 1));
            const int at = taken ? places[token - base] : 0;
            __syncwarp();
            if (taken && rank == 0) places[token - base] = static_cast<std::uint16_t>(at + __popc(same));
            if (taken) staged[at + rank - static_cast<int>(begin)] = static_cast<std::uint16_t>(source);
            __syncwarp();
        });
        __syncthreads();
        // Scattered, numbers of two bytes would each take a transaction.
        for (std::uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x) sorted[i] = staged[i - begin];
        __syncthreads();
    }
}

}  // namespace rowmax::cuda
