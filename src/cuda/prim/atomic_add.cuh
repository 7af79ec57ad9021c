// Additions to the device's memory that wait for nothing; in which order those to one place happen is not said.
#pragma once

#include <cuda_runtime.h>

namespace rowmax::cuda {

/// Four neighbours, at a multiple of 16 bytes: one instruction from compute capability 9.0 on.
/// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-red
__device__ __forceinline__ void add_four(float* to, const float (&x)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "f"(x[0]),
                 "f"(x[1]), "f"(x[2]), "f"(x[3])
                 : "memory");
#else
    for (int i = 0; i < 4; ++i) atomicAdd(to + i, x[i]);
#endif
}

}  // namespace rowmax::cuda
