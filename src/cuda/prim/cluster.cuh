// Thread blocks that run side by side and reach each other's shared memory.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-barrier-cluster
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/prim/barrier.cuh"
#include "cuda/prim/bulk_tensor.cuh"

namespace rowmax::cuda {

/// Of this thread block in its cluster.
__device__ __forceinline__ std::uint32_t cluster_rank() {
    std::uint32_t rank = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/// All threads of all thread blocks of the cluster.
__device__ __forceinline__ void sync_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Arrives at the barrier that thread block `rank` has where this one has `barrier`.
__device__ __forceinline__ void arrive_at(Barrier* barrier, std::uint32_t rank) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(rank)
        : "memory");
}

/// copy_box() to the same place in each thread block whose bit is set; bytes complete on the barriers of each.
__device__ __forceinline__ void copy_box_to_cluster(void* to, const CUtensorMap* map, const BoxCorner& at,
                                                    Barrier* barrier, std::uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(at.element), "r"(at.token), "r"(at.inner), "r"(at.outer),
        "h"(blocks)
        : "memory");
}

}  // namespace rowmax::cuda
