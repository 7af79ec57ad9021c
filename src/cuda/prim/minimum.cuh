// The smaller of two numbers by one instruction that C++ has no word for.
#pragma once

namespace rowmax::cuda {

/// NaN when either is.
/// https://docs.nvidia.com/cuda/parallel-thread-execution/#floating-point-instructions-min
__device__ __forceinline__ float min_or_nan(float a, float b) {
    float c;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

}  // namespace rowmax::cuda
