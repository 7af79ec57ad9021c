// Rows of a slot whose tokens do not start at multiples of 16 bytes: they were
// copied by the aligned pieces that they lie in, up to 15 bytes too early, the
// ninth piece beside the slot, and are moved to where they belong.
#pragma once

#include <cstdint>

#include "cuda/kernels/document_ring.cuh"
#include "cuda/prim/shared.cuh"
#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

/// Where a slot has a piece of a row: SWIZZLE_128B.
__device__ __forceinline__ std::uint32_t piece_offset(int row, int piece) {
    return static_cast<std::uint32_t>(row * row_bytes + (piece ^ row % 8) * 16);
}

/// The ninth pieces of the slots of ring `number` of `rings`: behind everything
/// else in shared memory.
template <TokenType Type>
__device__ __forceinline__ std::uint32_t ninths_of_ring(int rings, int number, int stages) {
    return end_of_shared_memory() - static_cast<std::uint32_t>((rings - number) * stages * ninths_bytes_of(Type));
}

/// In which byte of its first piece a slot's row starts; `rows`: as DocumentRing::rows has them.
__device__ __forceinline__ unsigned byte_in_piece(int rows, int row, std::int64_t stride) {
    return (static_cast<unsigned>(rows) + static_cast<unsigned>(row) * static_cast<unsigned>(stride)) % 16;
}

/// Of pieces in a row, all but one, from byte `first` on, which is a multiple of Bytes.
template <int Bytes, int Pieces>
__device__ __forceinline__ void later_bytes(std::uint32_t (&pieces)[Pieces][4], unsigned first) {
    constexpr int words = 4 * Pieces;
    const auto word = [&](int i) -> std::uint32_t& { return pieces[i / 4][i % 4]; };
#pragma unroll
    for (int i = 0; i < words - 2; ++i) word(i) = (first & 8) != 0 ? word(i + 2) : word(i);
#pragma unroll
    for (int i = 0; i < words - 3; ++i) word(i) = (first & 4) != 0 ? word(i + 1) : word(i);
    if constexpr (Bytes < 4) {
#pragma unroll
        for (int i = 0; i < words - 4; ++i) {
            constexpr unsigned within_word = 4 - Bytes;
            word(i) = __funnelshift_r(word(i), word(i + 1), (first & within_word) * 8);
        }
    }
}

/// PiecesOfLane: that a lane moves at once; with one more beside them, each
/// takes 4 registers.
template <TokenType Type, int PiecesOfLane>
struct ShiftedRows {
    /// Rows that a warp moves at once.
    static constexpr int at_once = 32 * PiecesOfLane / pieces_of_slot;

    /// Rows `first` to that + at_once - 1, and every `step` ones behind as many again. `rows`: as DocumentRing::rows
    /// has them; `stride`: from row to row.
    __device__ __forceinline__ static void move_some(std::uint32_t slot, std::uint32_t ninths, int rows,
                                                     std::int64_t stride, int first, int step) {
#pragma unroll 1
        for (; first < rows / 16; first += step) move(slot, ninths, rows, stride, first);
    }

    __device__ __forceinline__ static void move(std::uint32_t slot, std::uint32_t ninths, int rows, std::int64_t stride,
                                                int first) {
        const int lane = lane_anew();
        const int row = first + lane % at_once;
        const int piece = lane / at_once * PiecesOfLane;
        std::uint32_t pieces[PiecesOfLane + 1][4];
#pragma unroll
        for (int i = 0; i < PiecesOfLane; ++i) load_shared(slot + piece_offset(row, piece + i), pieces[i]);
        load_shared(piece + PiecesOfLane < pieces_of_slot ? slot + piece_offset(row, piece + PiecesOfLane)
                                                          : ninths + static_cast<std::uint32_t>(row * 16),
                    pieces[PiecesOfLane]);
        // What one lane reads last another writes first.
        __syncwarp();
        later_bytes<bytes_of(Type)>(pieces, byte_in_piece(rows, row, stride));
#pragma unroll
        for (int i = 0; i < PiecesOfLane; ++i) store_shared(slot + piece_offset(row, piece + i), pieces[i]);
    }
};

}  // namespace rowmax::cuda
