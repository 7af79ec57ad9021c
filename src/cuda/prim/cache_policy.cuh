// What L2 does with the lines that the copy engine brings.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-createpolicy
#pragma once

#include <cstdint>

#include "cuda/prim/bulk_tensor.cuh"

namespace rowmax::cuda {

using CachePolicy = std::uint64_t;

/// `passing`: the lines are the first to make room for others.
__device__ __forceinline__ CachePolicy cache_policy(bool passing) {
    CachePolicy policy = 0;
    if (passing) {
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    } else {
        asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
    }
    return policy;
}

__device__ __forceinline__ void copy_box(void* to, const CUtensorMap* map, const BoxCorner& at, Barrier* barrier,
                                         CachePolicy policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
        "{%3, %4, %5, %6}], [%2], %7;" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(at.element), "r"(at.token), "r"(at.inner), "r"(at.outer),
        "l"(policy)
        : "memory");
}

}  // namespace rowmax::cuda
