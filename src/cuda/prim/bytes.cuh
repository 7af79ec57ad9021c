// Bytes and bits of registers.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-prmt
#pragma once

#include <cstdint>

namespace rowmax::cuda {

/// Four of the eight bytes of a (0 to 3) and b (4 to 7), as the lowest four nibbles of `selector` say; none may
/// exceed 7.
/// (__byte_perm masks the selector first.)
__device__ __forceinline__ std::uint32_t select_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
    std::uint32_t c;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(c) : "r"(a), "r"(b), "r"(selector));
    return c;
}

/// The bits of each byte in the opposite order.
__device__ __forceinline__ std::uint32_t reverse_each_byte(std::uint32_t word) {
    return select_bytes(__brev(word), 0, 0x0123);
}

/// The same value in a register of each lane: the compiler keeps what all lanes share in registers of the warp, from
/// which it is moved before every use.
__device__ __forceinline__ std::uint32_t in_every_lane(std::uint32_t value) {
    std::uint32_t copy;
    asm volatile("mov.b32 %0, %1;" : "=r"(copy) : "r"(value));
    return copy;
}

}  // namespace rowmax::cuda
