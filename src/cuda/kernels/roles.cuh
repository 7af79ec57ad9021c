// What the two kernels for Hopper share: two warpgroups that read the ring, a warp that fills it, a warp that writes
// scores.
#pragma once

#include "cuda/kernels/document_ring.cuh"

namespace rowmax::cuda {

inline constexpr int reading_warps = 8;
inline constexpr int reading_threads = 32 * reading_warps;
inline constexpr int tiled_threads = reading_threads + 128;
/// Of a thread, after the warpgroups have shared them out anew: 65536 registers in all.
inline constexpr int consumer_registers = 216;
inline constexpr int producer_registers = 72;

/// What goes with the maxima of a unit.
struct UnitNote {
    Unit unit;
    std::int32_t seen;  ///< some token was kept
    std::int32_t stop;
};

/// One of two or more buffers, taken in turn.
struct BufferPlace {
    int buffer = 0;
    std::uint32_t phase = 0;
    __device__ __forceinline__ void advance(int buffers) {
        if (++buffer == buffers) {
            buffer = 0;
            phase ^= 1U;
        }
    }
};

/// Start of the ring's slots: their layout repeats every 1024 bytes.
__device__ __forceinline__ std::byte* aligned_slots(std::byte* memory) {
    return memory + (1024 - shared_address(memory) % 1024) % 1024;
}

__host__ __device__ constexpr int slots_of_token(std::int64_t dim) {
    return static_cast<int>((dim + slot_dims - 1) / slot_dims);
}

/// True when `next` brings other query rows than `now`.
__device__ __forceinline__ bool new_queries(const core::Params& params, const Unit& now, const Unit& next) {
    return next.block != now.block || (query_by_item(params) && next.item != now.item);
}

}  // namespace rowmax::cuda
