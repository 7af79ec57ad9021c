// Numbers as sums of two float16 numbers, times a power of two that brings the largest of them near float16's own: then
// the second part keeps what the first rounds off, down to 2^-39 of the largest.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/kernels/row_norm.cuh"
#include "cuda/kernels/row_values.cuh"

namespace rowmax::cuda {

struct HalfParts {
    __half high;
    __half low;
};

/// x is scaled already. Infinities and NaN are in the first part alone.
__device__ __forceinline__ HalfParts half_parts(float x) {
    const __half high = __float2half_rn(x);
    const float rest = x - __half2float(high);
    const bool finite = !__hisinf(high) && !__hisnan(high);
    return {high, finite ? __float2half_rn(rest) : __half(0)};
}

/// The power of two for numbers of which the largest magnitude is this.
__device__ __forceinline__ float scale_for_parts(float largest) {
    constexpr int top = 14;
    if (!(largest > 0) || !(largest < __builtin_huge_valf())) return 1;
    const int exponent = top - ilogbf(largest);
    return power_of_two(exponent > 126 ? 126 : exponent);
}

__device__ __forceinline__ std::uint32_t both(__half low, __half high) {
    return __half_as_ushort(low) | static_cast<std::uint32_t>(__half_as_ushort(high)) << 16;
}

}  // namespace rowmax::cuda
