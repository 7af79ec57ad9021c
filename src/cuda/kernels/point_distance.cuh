// Distances between points to the bit as the CPU has them (cpu/kernels/point_ops.hpp), and which of two is nearer.
#pragma once

#include <cstdint>

#include "cuda/prim/minimum.cuh"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

inline constexpr int dims_of_run = 16;
inline constexpr int runs_of_block = 16;

__device__ __forceinline__ float fused(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
__device__ __forceinline__ double fused(double a, double b, double c) {
    return __fma_rn(a, b, c);
}

/// sum + the term of one coordinate.
template <bool Squared, class Value>
__device__ __forceinline__ Value add_term(Value sum, Value a, Value b) {
    const Value d = a - b;
    if constexpr (Squared) {
        return fused(d, d, sum);
    } else {
        return sum + fabs(d);
    }
}

/// The smaller of two; NaN when either is.
__device__ __forceinline__ float least_or_nan(float a, float b) {
    return min_or_nan(a, b);
}
__device__ __forceinline__ double least_or_nan(double a, double b) {
    return a <= b || a != a ? a : b;
}

template <class Value>
__device__ __forceinline__ Value infinite() {
    return static_cast<Value>(__int_as_float(0x7f800000));
}

/// NaN before numbers, then the smaller: `a`, of a later target, takes the place of `b`.
template <class Value>
__device__ __forceinline__ bool nearer(Value a, Value b) {
    return a < b || (a != a && b == b);
}

template <class Value>
__device__ __forceinline__ bool as_near(Value a, Value b) {
    return a == b || (a != a && b != b);
}

/// Which of two targets comes first, whatever the order in which they are met.
template <class Value>
__device__ __forceinline__ bool comes_first(Value a, std::int32_t i, Value b, std::int32_t j) {
    if (i < 0 || j < 0) return j < 0 && i >= 0;
    return nearer(a, b) || (as_near(a, b) && i < j);
}

/// The targets of one slice of an item.
struct TargetSlice {
    std::int64_t begin;
    std::int64_t end;
};
__device__ __forceinline__ TargetSlice slice_of(std::int64_t targets, std::int64_t slice, std::int64_t slices) {
    constexpr std::int64_t step = 64;
    const std::int64_t size = (targets + slices * step - 1) / (slices * step) * step;
    const std::int64_t begin = slice * size < targets ? slice * size : targets;
    return {begin, begin + size < targets ? begin + size : targets};
}

}  // namespace rowmax::cuda
