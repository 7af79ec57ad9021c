// Loads from shared memory, and stores to it, by its own addresses, where the compiler cannot know that a pointer
// points there. https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-ld
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/prim/barrier.cuh"

namespace rowmax::cuda {

__device__ __forceinline__ void store_shared(std::uint32_t address, const std::uint32_t (&from)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]), "r"(from[1]), "r"(from[2]),
                 "r"(from[3])
                 : "memory");
}
__device__ __forceinline__ void store_shared(std::uint32_t address, std::uint32_t from) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(from) : "memory");
}
__device__ __forceinline__ std::uint32_t load_shared(std::uint32_t address) {
    std::uint32_t to = 0;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(to) : "r"(address) : "memory");
    return to;
}
__device__ __forceinline__ void load_shared(std::uint32_t address, std::uint32_t (&to)[2]) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(address) : "memory");
}
__device__ __forceinline__ void load_shared(std::uint32_t address, std::uint32_t (&to)[4]) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

/// Where the shared memory ends that the launch asked for.
__device__ __forceinline__ std::uint32_t end_of_shared_memory() {
    extern __shared__ std::byte all_of_it[];
    std::uint32_t bytes = 0;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return shared_address(all_of_it) + bytes;
}

}  // namespace rowmax::cuda
