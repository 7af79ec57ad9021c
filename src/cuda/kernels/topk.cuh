// The k best of every query, exactly: one thread block a query looks at the list so far and at a chunk of new scores.
//
//   key      64 bits: how far the score is from the top, then the document's number. Keys differ, and ascending keys
//   are
//            the order of results: NaN first, higher scores, lower documents. -0 is +0.
//   select   The k-th smallest key, digit by digit from the top (a radix select): count the digits of all keys that
//   begin
//            like it, find the digit below which k lie, go on with the next. Stops where all keys of a prefix belong.
//   collect  Every key up to it, in any order: a set has none, and so the result depends on nothing but the scores.
//   write    After the last chunk: sort the k keys, turn them back.
#pragma once

#include <cstdint>

#include "cuda/kernels/topk_arguments.hpp"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

using Key = unsigned long long;

inline constexpr int digit_bits = 8;
inline constexpr int digits = 1 << digit_bits;
inline constexpr Key no_key = ~Key{0};

__device__ __forceinline__ Key key_of(float score, std::int64_t document) {
    const std::uint32_t bits = score == 0 ? 0U : __float_as_uint(score);
    // Ascending with the score, then turned over; NaN would come last among positives and first among negatives.
    const std::uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    const std::uint32_t from_top = score != score ? 0U : ~ascending;
    return Key{from_top} << 32 | static_cast<std::uint32_t>(document);
}

__device__ __forceinline__ float score_of(Key key) {
    const auto ascending = ~static_cast<std::uint32_t>(key >> 32);
    return __uint_as_float((ascending & 0x80000000U) != 0 ? ascending ^ 0x80000000U : ~ascending);
}

/// What a query chooses from: the list so far, then the chunk.
struct Candidates {
    const Key* list;
    const float* scores;
    std::int64_t held;
    std::int64_t first;
    std::int64_t count;

    __device__ __forceinline__ Key at(std::int64_t i) const {
        return i < held ? list[i] : key_of(scores[i - held], first + i - held);
    }
};

struct SelectShared {
    int count[digits];
    std::int64_t below;  ///< keys with a smaller digit
    int digit;
    int collected;
};

/// Adds one to count[digit] for every lane that takes part; lanes of one digit, which are the rule, add together.
__device__ __forceinline__ void count_digit(int* count, int digit, bool takes_part) {
    const std::uint32_t peers = __match_any_sync(all_lanes, takes_part ? digit : digits);
    const bool leads = static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(peers)) - 1;
    if (takes_part && leads) atomicAdd(&count[digit], __popc(peers));
}

/// One warp: the digit that holds the `wanted`-th key, and how many keys have smaller ones.
__device__ __forceinline__ void find_digit(SelectShared& shared, std::int64_t wanted) {
    constexpr int each = digits / 32;
    const int lane = static_cast<int>(threadIdx.x);
    std::int64_t mine = 0;
    for (int i = 0; i < each; ++i) mine += shared.count[lane * each + i];
    std::int64_t up_to = mine;
    for (int distance = 1; distance < 32; distance *= 2) {
        const std::int64_t left = __shfl_up_sync(all_lanes, up_to, distance);
        if (lane >= distance) up_to += left;
    }
    std::int64_t below = up_to - mine;
    if (below >= wanted || up_to < wanted) return;
    int i = 0;
    for (; below + shared.count[lane * each + i] < wanted; ++i) below += shared.count[lane * each + i];
    shared.digit = lane * each + i;
    shared.below = below;
}

/// The largest key that belongs to the `wanted` smallest.
__device__ Key select_key(const Candidates& from, std::int64_t wanted, SelectShared& shared) {
    Key prefix = 0;
    for (int shift = 64 - digit_bits;; shift -= digit_bits) {
        for (int i = static_cast<int>(threadIdx.x); i < digits; i += topk_threads) shared.count[i] = 0;
        __syncthreads();
        const Key above = shift + digit_bits == 64 ? 0 : ~Key{0} << (shift + digit_bits);
        for (std::int64_t base = 0; base < from.count; base += topk_threads) {
            const std::int64_t i = base + threadIdx.x;
            const Key key = i < from.count ? from.at(i) : no_key;
            const bool takes_part = i < from.count && ((key ^ prefix) & above) == 0;
            count_digit(shared.count, static_cast<int>(key >> shift) & (digits - 1), takes_part);
        }
        __syncthreads();
        if (threadIdx.x < 32) find_digit(shared, wanted);
        __syncthreads();
        wanted -= shared.below;
        prefix |= static_cast<Key>(shared.digit) << shift;
        const bool all_belong = shared.count[shared.digit] == wanted;
        __syncthreads();
        if (all_belong) return prefix | ((Key{1} << shift) - 1);
    }
}

__device__ void collect_keys(const Candidates& from, Key last, Key* to, SelectShared& shared) {
    if (threadIdx.x == 0) shared.collected = 0;
    __syncthreads();
    for (std::int64_t base = 0; base < from.count; base += topk_threads) {
        const std::int64_t i = base + threadIdx.x;
        const Key key = i < from.count ? from.at(i) : no_key;
        const bool belongs = i < from.count && key <= last;
        const std::uint32_t mask = ballot(belongs);
        if (mask == 0) continue;
        const int lane = static_cast<int>(threadIdx.x % 32);
        int place = 0;
        if (lane == 0) place = atomicAdd(&shared.collected, __popc(mask));
        place = from_lane(place, 0) + __popc(mask & ((1U << lane) - 1));
        if (belongs) to[place] = key;
    }
    __syncthreads();
}

/// Bitonic, ascending; `size` is a power of two.
__device__ void sort_keys(Key* keys, std::int64_t size) {
    for (std::int64_t run = 2; run <= size; run *= 2) {
        for (std::int64_t distance = run / 2; distance > 0; distance /= 2) {
            for (std::int64_t i = threadIdx.x; i < size / 2; i += topk_threads) {
                const std::int64_t low = 2 * i - (i & (distance - 1));
                const Key a = keys[low];
                const Key b = keys[low + distance];
                const bool descending = (low & run) != 0;
                if ((a > b) != descending) {
                    keys[low] = b;
                    keys[low + distance] = a;
                }
            }
            __syncthreads();
        }
    }
}

__device__ void write_hits(const TopKArguments& call, std::int64_t query, Key* keys) {
    for (std::int64_t i = call.kept + threadIdx.x; i < call.list_size; i += topk_threads) keys[i] = no_key;
    __syncthreads();
    sort_keys(keys, call.list_size);
    for (std::int64_t i = threadIdx.x; i < call.kept; i += topk_threads) {
        call.best[query * call.kept + i] = score_of(keys[i]);
        call.documents[query * call.kept + i] = static_cast<std::int64_t>(keys[i] & 0xffffffffU);
    }
}

__global__ void __launch_bounds__(topk_threads) merge_chunk(const __grid_constant__ TopKArguments call) {
    __shared__ SelectShared shared;
    __shared__ Key sorted[topk_in_shared];
    const std::int64_t query = blockIdx.x;
    Candidates from;
    from.list = call.list + query * call.list_size;
    from.scores = call.scores + query * call.chunk;
    from.held = call.held;
    from.first = call.first;
    from.count = call.held + call.chunk;
    const bool last = call.best != nullptr;
    Key* to = last && call.list_size <= topk_in_shared ? sorted : call.next + query * call.list_size;
    const Key end = call.kept == from.count ? no_key : select_key(from, call.kept, shared);
    collect_keys(from, end, to, shared);
    if (last) write_hits(call, query, to);
}

}  // namespace rowmax::cuda
