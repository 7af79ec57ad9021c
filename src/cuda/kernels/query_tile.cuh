// Query rows in shared memory, in the layout of a wgmma operand: tiles of 64 dimensions, `rows` x 128 bytes each,
// SWIZZLE_128B; zeros where there is no token and beyond d.
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/token_row.cuh"

namespace rowmax::cuda {

/// Rows [first, first + count) of the unit's block, by `threads` threads of which this is number `thread`. Returns
/// whether the row that this thread helped to load is kept; row of a thread: first + thread % count.
__device__ __forceinline__ bool load_query_rows(const Arguments& call, const Unit& unit, std::byte* tile, int tile_rows,
                                                int first, int count, int thread, int threads) {
    const int number = first + thread % count;
    const Row row = row_of(call.params, call.plan, unit, number);
    const std::byte* data = row.segment.data + row.position * call.params.q.row_stride;
    const int pieces = static_cast<int>((call.params.dim + slot_dims - 1) / slot_dims) * 8;
    for (int piece = thread / count; piece < pieces; piece += threads / count) {
        const uint4 value = row.kept ? read_piece<TokenType::bf16>(data, piece * 8, call.params.dim, call.q_by_16)
                                     : make_uint4(0, 0, 0, 0);
        std::byte* to =
            tile + (piece / 8) * tile_rows * row_bytes + number * row_bytes + ((piece % 8) ^ (number % 8)) * 16;
        *reinterpret_cast<uint4*>(to) = value;
    }
    return row.kept;
}

}  // namespace rowmax::cuda
