// float32 similarities on tensor cores, to float32 accuracy: what all kernels agree on, so that their bits are the
// same.
//
// Tensor cores align the products of a step with the largest of them and cut off what does not fit, always towards
// zero: a long chain of additions, and even one step with products of many sizes, would break the bound of the error.
// So nothing is left to cut. 32 dimensions of a token are a chunk; its numbers are cut into three bfloat16 parts a + b
// + c along a grid which is the same for the whole chunk (prim/bfloat_parts.cuh). Of the products of two such sums, c
// c' is less than 2^-34 and left out; the others are two sums:
//
//   chunk   a a' over a chunk, from zero: whole multiples of one unit, fewer than 2^24, hence exact. Chunks are added
//   in
//           float32, and what rounding takes from their total is kept in `lost`.
//   small   the other seven, which are 2^-8 of that or less: a chain over four chunks, then added to `lost`.
//
// A chunk is two steps of 16 dimensions. A step takes every second group of 4, so that the thread of a quad which holds
// numbers 2j, 2j + 1, 2j + 8, 2j + 9 of both steps reads 8 neighbours: dimensions 8j .. 8j + 7 of the chunk.
//
// Whatever three parts cannot hold (infinities, NaN, numbers beyond 2^112, chunks without a number above 2^-95) turns
// into NaN there. A similarity that is not finite is computed anew, directly.
#pragma once

#include <cstdint>

#include "cuda/prim/bfloat_parts.cuh"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

inline constexpr int chunk_dims = 32;
inline constexpr int steps_of_chunk = 2;
inline constexpr int chunks_of_chain = 4;  ///< of small products
inline constexpr int float_parts = 3;
inline constexpr int small_products = 7;

/// Which parts (0: a, 1: b, 2: c) small product number i is made of, in the order in which they are added.
constexpr int query_part(int i) {
    constexpr int parts[small_products] = {0, 1, 1, 0, 2, 1, 2};
    return parts[i];
}
constexpr int token_part(int i) {
    constexpr int parts[small_products] = {1, 0, 1, 2, 0, 2, 1};
    return parts[i];
}

/// A thread's 8 numbers of a chunk: 4 of each step. `largest`: of the quad's.
struct QuadNumbers {
    float4 step[steps_of_chunk];

    [[nodiscard]] __device__ __forceinline__ float largest() const {
        float most = 0;
#pragma unroll
        for (const float4& x : step) {
            most = fmaxf(fmaxf(most, fabsf(x.x)), fmaxf(fabsf(x.y), fmaxf(fabsf(x.z), fabsf(x.w))));
        }
        most = fmaxf(most, exchange(most, 1));
        return fmaxf(most, exchange(most, 2));
    }
};

/// The parts of one operand of a step, as registers of a matrix instruction.
template <int Registers>
struct PartRegisters {
    std::uint32_t part[float_parts][Registers];
};

/// Splits a thread's numbers of a row and step into two registers a part.
template <int Registers>
__device__ __forceinline__ void split(const BfloatGrid& grid, const float4& x, PartRegisters<Registers>& to, int first,
                                      int second) {
    const BfloatParts low(grid, x.x, x.y);
    const BfloatParts high(grid, x.z, x.w);
    const std::uint32_t lows[] = {low.a, low.b, low.c};
    const std::uint32_t highs[] = {high.a, high.b, high.c};
#pragma unroll
    for (int p = 0; p < float_parts; ++p) {
        to.part[p][first] = lows[p];
        to.part[p][second] = highs[p];
    }
}

/// Both steps.
template <int Registers>
__device__ __forceinline__ void split(const QuadNumbers& numbers, PartRegisters<Registers> (&to)[steps_of_chunk],
                                      int first, int second) {
    const BfloatGrid grid(numbers.largest());
#pragma unroll
    for (int s = 0; s < steps_of_chunk; ++s) split(grid, numbers.step[s], to[s], first, second);
}

/// total += x, and what rounding took from it. Exact where |x| <= |total|, else no worse than without.
__device__ __forceinline__ void add_keeping(float& total, float& lost, float x) {
    const float sum = total + x;
    lost += x - (sum - total);
    total = sum;
}

__device__ __forceinline__ bool is_finite(float x) {
    return fabsf(x) < __builtin_huge_valf();
}

/// A token as direct_similarity reads it: every number times `scale`.
struct FloatRow {
    const float* data;
    float scale;
    [[nodiscard]] __device__ __forceinline__ float at(int k) const { return data[k] * scale; }
};

/// The same in float32 arithmetic: chains of 8 multiply-adds, added like chunks. Slow, and needed by none of the usual
/// numbers.
__device__ __forceinline__ float direct_similarity(const FloatRow& q, const FloatRow& d, int dim) {
    float total = 0;
    float lost = 0;
#pragma unroll 1
    for (int k = 0; k < dim; k += 8) {
        float chain = 0;
#pragma unroll 1
        for (int i = k; i < k + 8 && i < dim; ++i) chain = fmaf(q.at(i), d.at(i), chain);
        add_keeping(total, lost, chain);
    }
    return is_finite(total) ? total + lost : total;
}

/// values[i] = make(i, values[i]), one after the other: small code for what happens rarely. The array stays in
/// registers, since nothing but constants indexes it.
template <int Count, class Make>
__device__ __forceinline__ void replace_each(float (&values)[Count], const Make& make) {
#pragma unroll 1
    for (int i = 0; i < Count; ++i) {
        float value = 0;
#pragma unroll
        for (int j = 0; j < Count; ++j) value = j == i ? values[j] : value;
        value = make(i, value);
#pragma unroll
        for (int j = 0; j < Count; ++j) values[j] = j == i ? value : values[j];
    }
}

}  // namespace rowmax::cuda
