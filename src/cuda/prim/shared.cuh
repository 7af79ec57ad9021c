// Loads from shared memory by its own addresses, where the compiler cannot know that a pointer points there.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-ld
#pragma once

#include <cstdint>

namespace rowmax::cuda {

__device__ __forceinline__ void load_shared(std::uint32_t address, std::uint32_t (&to)[2]) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(address) : "memory");
}
__device__ __forceinline__ void load_shared(std::uint32_t address, std::uint32_t (&to)[4]) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

}  // namespace rowmax::cuda
