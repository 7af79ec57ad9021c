// Arrival at a barrier in shared memory behind copies that pass no registers (cp.async.mbarrier.arrive).
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive
#pragma once

#include "cuda/prim/barrier.cuh"

namespace rowmax::cuda {

/// Arrives when this thread's copies so far are there: one of the arrivals that the barrier counts.
__device__ __forceinline__ void arrive_behind_copies(Barrier* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

}  // namespace rowmax::cuda
