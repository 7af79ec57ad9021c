// Tiles that were loaded, in a kernel whose warpgroups take turns with them (many_rows.cuh): their rows are moved to
// where they belong by the warps that multiply.
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/shifted_rows.cuh"

namespace rowmax::cuda {

struct MovedRing : DocumentRing {
    Barrier moved[most_stages];  ///< of a tile that was loaded: its rows are where they belong
};

/// By one thread, before the block's first barrier.
__device__ __forceinline__ void init_moved(MovedRing& ring, int moving_warps) {
    for (Barrier& moved : ring.moved) init(&moved, static_cast<std::uint32_t>(moving_warps));
}

/// The barrier of the tile that a reader is at.
__device__ __forceinline__ Barrier* moved(const DocumentReader& tile) {
    return &static_cast<MovedRing&>(tile.ring()).moved[tile.slot()];
}

/// Who moves rows that were loaded to where they belong: all warps that multiply, those of a tile while the one before
/// it is multiplied; the warpgroup whose turn is first; or, for want of registers, the warps that load.
enum class Movers : std::uint8_t { all, first, loaders };
template <TokenType Type>
inline constexpr Movers movers = is_scaled(Type) ? Movers::loaders
                                                 : (bytes_of(Type) == 2 ? Movers::all : Movers::first);

/// A warp's share of a tile whose slots are one stage: every `warps`-th 16 rows of a slot. Then it arrives at moved().
template <TokenType Type>
__device__ __forceinline__ void move_rows_of_tile(const DocumentReader& tile, const Arguments& call, int slots,
                                                  int warp, int warps) {
    using Rows = ShiftedRows<Type, 4>;
    constexpr int of_slot = tile_tokens / Rows::at_once;
    const int rows = tile.rows();
    const std::uint32_t ninths = ninths_of_ring<Type>(1, 0, call.stages) +
                                 static_cast<std::uint32_t>(tile.slot() * slots * ninths_bytes_of(Type));
#pragma unroll 1
    for (int i = warp; call.d_shifted && i < of_slot * slots; i += warps) {
        const int slot = i / of_slot;
        const int first = i % of_slot * Rows::at_once;
        if (first >= rows / 16) continue;
        Rows::move(tile.address() + slot * slot_bytes, ninths + slot * ninths_bytes_of(Type), rows,
                   call.params.d.row_stride, first);
    }
    fence_async_proxy();
    __syncwarp();
    if (lane_anew() == 0) arrive(moved(tile));
}

/// By the four warps of a warpgroup, which then wait for one another at a named barrier. It holds products meanwhile,
/// and so a lane moves few pieces at once.
template <TokenType Type>
__device__ __forceinline__ void move_rows_of_slot(const DocumentReader& slot, const Arguments& call, int warp,
                                                  std::uint32_t barrier) {
    using Rows = ShiftedRows<Type, 1>;
    if (call.d_shifted) {
        Rows::move_some(
            slot.address(),
            ninths_of_ring<Type>(1, 0, call.stages) + static_cast<std::uint32_t>(slot.slot() * ninths_bytes_of(Type)),
            slot.rows(), call.params.d.row_stride, Rows::at_once * warp, 4 * Rows::at_once);
    }
    fence_async_proxy();
    sync_threads(barrier, 128);
}

}  // namespace rowmax::cuda
