// Query rows in shared memory, in the layout of a wgmma operand: tiles of 64 dimensions, `rows` x 128 bytes each,
// SWIZZLE_128B; zeros where there is no token and beyond d.
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/row_norm.cuh"

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

/// By one thread, after the row was loaded: scales row `number` as its products need it, and returns the inverse norm
/// of what it is then.
template <TokenType Type>
__device__ __forceinline__ float normalize_query_row(std::byte* tile, int tile_rows, int number, std::int64_t dim) {
    const auto piece = [&](int i) -> uint4& {
        return *reinterpret_cast<uint4*>(tile + (i / pieces_of_slot) * tile_rows * row_bytes + number * row_bytes +
                                         ((i % pieces_of_slot) ^ (number % 8)) * 16);
    };
    const int pieces = slots_of_token(dim) * pieces_of_slot;
    PassingNorm<Type> passing;
#pragma unroll 4
    for (int i = 0; i < pieces; ++i) passing.add({piece(i).x, piece(i).y, piece(i).z, piece(i).w});
    const Norm norm = for_query<Type>(passing.norm(pieces, piece));
    if (norm.scale != 1) {
        for (int i = 0; i < pieces; ++i) {
            float values[elements_of_piece<Type>];
            widen<Type>(piece(i), values);
#pragma unroll
            for (float& x : values) x *= norm.scale;
            piece(i) = narrow<Type>(values);
        }
    }
    return norm.inverse;
}

}  // namespace rowmax::cuda
