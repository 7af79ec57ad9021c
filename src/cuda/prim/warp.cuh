// Exchange between the lanes of a warp, and single instructions that C++ has no word for.
#pragma once

#include <cstdint>

namespace rowmax::cuda {

inline constexpr std::uint32_t all_lanes = 0xffffffffU;

template <class T>
__device__ __forceinline__ T exchange(T value, int distance) {
    return __shfl_xor_sync(all_lanes, value, distance);
}

template <class T>
__device__ __forceinline__ T from_lane(T value, int lane) {
    return __shfl_sync(all_lanes, value, lane);
}

__device__ __forceinline__ std::uint32_t ballot(bool condition) {
    return __ballot_sync(all_lanes, condition);
}

/// The same value, which all lanes have, in a form that the compiler knows to be the same in all lanes: wgmma must not
/// stand behind a condition that might differ.
__device__ __forceinline__ int uniform(int value) {
    return __shfl_sync(all_lanes, value, 0);
}

/// threadIdx.x % 32, anew: a value that is computed once and used in all roles of a kernel takes a register in all.
__device__ __forceinline__ int lane_anew() {
    int lane = 0;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

/// The larger of two; NaN when either is.
/// https://docs.nvidia.com/cuda/parallel-thread-execution/#floating-point-instructions-max
__device__ __forceinline__ float max_or_nan(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

/// Before the first look at memory: kernels are launched while the one before them in the stream still runs, so that
/// what they do without memory is done by then. Lets the next one begin likewise.
/// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-griddepcontrol
__device__ __forceinline__ void wait_for_earlier_kernels() {
    asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
}

/// Gives registers of this warpgroup back, or takes more: all four warps call it.
/// https://docs.nvidia.com/cuda/parallel-thread-execution/#miscellaneous-instructions-setmaxnreg
template <int Registers>
__device__ __forceinline__ void release_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace rowmax::cuda
