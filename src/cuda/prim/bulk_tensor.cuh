// The bulk tensor copy engine: boxes of a tensor into shared memory.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk-tensor
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/prim/barrier.cuh"

namespace rowmax::cuda {

/// Where a box starts, innermost dimension first.
struct BoxCorner {
    std::int32_t element;
    std::int32_t token;
    std::int32_t inner;
    std::int32_t outer;
};

/// Copies a box; its bytes complete on `barrier`. What lies outside the tensor arrives as zeros.
__device__ __forceinline__ void copy_box(void* to, const CUtensorMap* map, const BoxCorner& at, Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
        "%6}], "
        "[%2];" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(at.element), "r"(at.token), "r"(at.inner), "r"(at.outer)
        : "memory");
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

}  // namespace rowmax::cuda
