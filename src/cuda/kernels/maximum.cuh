// The running maximum of a row, with the rules of the contract: the lowest token among equals, NaN above everything.
#pragma once

#include <cstdint>

#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

inline constexpr float minus_infinity = -__builtin_huge_valf();
inline constexpr float not_a_number = __builtin_nanf("");

/// A maximum and, with Indexed, the token that has it; -1: no token was kept so far.
template <bool Indexed>
struct Maximum;

template <>
struct Maximum<false> {
    float value = minus_infinity;
};

template <>
struct Maximum<true> {
    float value = minus_infinity;
    std::int32_t token = -1;
};

__device__ __forceinline__ void join(Maximum<false>& into, const Maximum<false>& other) {
    into.value = max_or_nan(into.value, other.value);
}

/// Bits that compare as the float does, from such bits or to them: its own inverse.
__device__ __forceinline__ int flip(int bits) {
    return bits ^ (bits >> 31 & 0x7fffffff);
}
/// The same, with -0 as +0; NaN is the largest.
__device__ __forceinline__ int in_order(float x) {
    return flip(__float_as_int(x + 0.0F));
}
/// A number for each maximum, the largest for the one that wins: no branches, which would take longer than what they
/// jump over. Where no token was kept the maximum is minus infinity, and behind all others.
__device__ __forceinline__ std::int64_t rank(const Maximum<true>& of) {
    return static_cast<std::int64_t>(in_order(of.value)) << 32 | static_cast<std::uint32_t>(~of.token);
}

__device__ __forceinline__ void join(Maximum<true>& into, const Maximum<true>& other) {
    const bool wins = rank(other) > rank(into);
    into.value = wins ? other.value : into.value;
    into.token = wins ? other.token : into.token;
}

__device__ __forceinline__ Maximum<false> exchange(const Maximum<false>& mine, int distance) {
    return {exchange(mine.value, distance)};
}
__device__ __forceinline__ Maximum<true> exchange(const Maximum<true>& mine, int distance) {
    return {exchange(mine.value, distance), exchange(mine.token, distance)};
}

/// a or b, by value: the condition must not choose between addresses, or registers become memory.
__device__ __forceinline__ Maximum<false> choose(bool first, const Maximum<false>& a, const Maximum<false>& b) {
    return {first ? a.value : b.value};
}
__device__ __forceinline__ Maximum<true> choose(bool first, const Maximum<true>& a, const Maximum<true>& b) {
    return {first ? a.value : b.value, first ? a.token : b.token};
}

/// Sum over the 8 rows of an oct, whose rows lie `Step` lanes apart: always the same tree.
template <int Step>
__device__ __forceinline__ float sum_of_oct(float value) {
    value += exchange(value, 4 * Step);
    value += exchange(value, 2 * Step);
    value += exchange(value, Step);
    return value;
}

/// Similarities `a` of token `token` and `b` of the eighth behind it, as a thread holds them of wgmma's rows.
template <bool Indexed>
__device__ __forceinline__ void take_two(Maximum<Indexed>& best, float a, float b, int token) {
    if constexpr (Indexed) {
        const auto one = [&](float s, int at) {
            if (!(s <= best.value) && best.value == best.value) best = {s, at};
        };
        one(a, token);
        one(b, token + 8);
    } else {
        best.value = max_or_nan(best.value, max_or_nan(a, b));
    }
}

}  // namespace rowmax::cuda
