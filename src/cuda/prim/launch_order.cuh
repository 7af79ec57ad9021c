// The two halves of wait_for_earlier_kernels(), for kernels that have something to do between them.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-griddepcontrol
#pragma once

namespace rowmax::cuda {

__device__ __forceinline__ void let_later_kernels_begin() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/// Before a thread's first look at memory, and in every thread block: else a kernel could end before an earlier one.
__device__ __forceinline__ void wait_for_memory() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace rowmax::cuda
