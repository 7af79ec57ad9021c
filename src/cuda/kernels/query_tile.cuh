// Query rows in shared memory, in the layout of a wgmma operand: tiles of 64 dimensions (32 of float32), `rows` x 128
// bytes each, SWIZZLE_128B; zeros where there is no token and beyond d.
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/row_norm.cuh"
#include "cuda/kernels/scores.cuh"

namespace rowmax::cuda {

/// Rows [first, first + count) of the unit's block, by `threads` threads of which this is number `thread`. Where each
/// row's results go is left in `places`, for who asks.
template <TokenType Type>
__device__ __forceinline__ void load_query_rows(const Arguments& call, const Unit& unit, std::byte* tile, int tile_rows,
                                                int first, int count, int thread, int threads,
                                                RowPlace* places = nullptr) {
    const int step = threads / count;
    constexpr int at_once = 4;  // loads that are under way together
    const int number = first + thread % count;
    const Row row =
        call.plan.plain_queries ? plain_row(call.params, number) : row_of(call.params, call.plan, unit, number);
    if (places != nullptr && thread < count) places[number] = place_of(call, unit, row);
    const std::byte* data = row.segment.data + row.position * call.params.q.row_stride;
    const auto dim = static_cast<int>(call.params.dim);
    const int pieces = slots_of_token<Type>(dim) * pieces_of_slot;
    constexpr int elements = elements_of_piece<Type>;
    const int whole = call.q_by_16 ? dim / elements : 0;
    std::byte* to = tile + number * row_bytes;
    const auto place = [&](int piece) {
        return reinterpret_cast<uint4*>(to + piece / 8 * tile_rows * row_bytes + ((piece & 7) ^ (number & 7)) * 16);
    };
    for (int piece = thread / count; piece < pieces; piece += at_once * step) {
        uint4 value[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            value[i] = make_uint4(0, 0, 0, 0);
            if (row.kept && piece + i * step < whole) {
                value[i] = reinterpret_cast<const uint4*>(data)[piece + i * step];
            }
        }
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            if (piece + i * step < pieces) *place(piece + i * step) = value[i];
        }
    }
    // Unaligned rows, and the end of a dimension that is no multiple of a piece's.
    if (!row.kept) return;
#pragma unroll 1
    for (int piece = thread / count; piece * elements < dim; piece += step) {
        if (piece >= whole) *place(piece) = read_piece<Type>(data, piece * elements, dim, false);
    }
}

/// By one thread, after the row was loaded: scales row `number` as its products need it, and returns the inverse norm
/// of what it is then.
template <TokenType Type>
__device__ __forceinline__ float normalize_query_row(std::byte* tile, int tile_rows, int number, std::int64_t dim) {
    const auto piece = [&](int i) -> uint4& {
        return *reinterpret_cast<uint4*>(tile + (i / pieces_of_slot) * tile_rows * row_bytes + number * row_bytes +
                                         ((i % pieces_of_slot) ^ (number & 7)) * 16);
    };
    const int pieces = slots_of_token<Type>(dim) * pieces_of_slot;
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
