// Addresses of global memory.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#integer-arithmetic-instructions-mad
#pragma once

#include <cstdint>

namespace rowmax::cuda {

/// So many bytes behind another, by one instruction.
__device__ __forceinline__ const void* bytes_behind(const void* base, std::uint32_t bytes) {
    const void* address = nullptr;
    asm("mad.wide.u32 %0, %1, 1, %2;" : "=l"(address) : "r"(bytes), "l"(base));
    return address;
}

}  // namespace rowmax::cuda
