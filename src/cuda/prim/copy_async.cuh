// Copies from global to shared memory that pass no registers and are waited for
// later (cp.async).
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-non-bulk-copy
#pragma once

#include <cstdint>

#include "cuda/prim/barrier.cuh"

namespace rowmax::cuda {

/// Copies the first `bytes` of 16 from an address that is a multiple of 16; the others become zero, and are not read.
__device__ __forceinline__ void copy_up_to_16_bytes(std::uint32_t to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_16_bytes(std::uint32_t to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_16_bytes(void* to, const void* from) {
    copy_16_bytes(shared_address(to), from);
}
/// 4 bytes, from any address that is a multiple of 4.
__device__ __forceinline__ void copy_4_bytes(std::uint32_t to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_4_bytes(void* to, const void* from) {
    copy_4_bytes(shared_address(to), from);
}
__device__ __forceinline__ void prefetch_to_l2(const void* address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}
__device__ __forceinline__ void close_copy_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most `Open` groups of copies of this thread are under way.
template <int Open>
__device__ __forceinline__ void wait_copy_groups() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Open) : "memory");
}

}  // namespace rowmax::cuda
