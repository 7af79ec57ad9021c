// float32 query rows in shared memory as the parts of split_sum.cuh: for each part, tiles of 64 dimensions (two
// chunks), `rows` x 128 bytes each, in the layout of a wgmma operand (SWIZZLE_128B).
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/scores.cuh"
#include "cuda/kernels/split_sum.cuh"
#include "cuda/kernels/token_row.cuh"

namespace rowmax::cuda {

/// 64 dimensions of every row, of one part.
inline constexpr int chunks_of_part_tile = 2;

__host__ __device__ constexpr int chunks_of_token(std::int64_t dim) {
    return static_cast<int>((dim + chunk_dims - 1) / chunk_dims);
}
__host__ __device__ constexpr int part_tiles(std::int64_t dim) {
    return (chunks_of_token(dim) + chunks_of_part_tile - 1) / chunks_of_part_tile;
}

/// Where a chunk begins within a part.
template <int Rows>
__device__ __forceinline__ int chunk_offset(int chunk) {
    return chunk / chunks_of_part_tile * Rows * row_bytes +
           chunk % chunks_of_part_tile * (row_bytes / chunks_of_part_tile);
}

/// One chunk of one row.
struct ChunkNumbers {
    float value[chunk_dims];

    __device__ __forceinline__ void read(const Row& row, const std::byte* data, int chunk, const Arguments& call) {
#pragma unroll
        for (int piece = 0; piece < chunk_dims / 4; ++piece) {
            const std::int64_t element = std::int64_t{chunk} * chunk_dims + piece * 4;
            const uint4 words = row.kept ? read_piece<TokenType::f32>(data, element, call.params.dim, call.q_by_16)
                                         : make_uint4(0, 0, 0, 0);
            float(&four)[4] = *reinterpret_cast<float(*)[4]>(&value[piece * 4]);
            widen<TokenType::f32>(words, four);
        }
    }
    [[nodiscard]] __device__ __forceinline__ float largest() const {
        float most = 0;
#pragma unroll
        for (const float x : value) most = fmaxf(most, fabsf(x));
        return most;
    }
};

/// The rows of the unit's block, by `threads` threads of which this is number `thread`. Where each row's results go is
/// left in `places`.
template <int Rows>
__device__ __forceinline__ void load_query_parts(const Arguments& call, const Unit& unit, std::byte* queries,
                                                 int thread, int threads, RowPlace* places) {
    const int number = thread % Rows;
    const Row row =
        call.plan.plain_queries ? plain_row(call.params, number) : row_of(call.params, call.plan, unit, number);
    if (thread < Rows) places[number] = place_of(call, unit, row);
    const std::byte* data = row.segment.data + row.position * call.params.q.row_stride;
    const int tiles = part_tiles(call.params.dim);
    for (int chunk = thread / Rows; chunk < chunks_of_token(call.params.dim); chunk += threads / Rows) {
        ChunkNumbers numbers;
        numbers.read(row, data, chunk, call);
        const BfloatGrid grid(numbers.largest());
        // Pieces of 8 numbers: the lower and the upper half of step 0, then of step 1.
#pragma unroll
        for (int piece = 0; piece < 2 * steps_of_chunk; ++piece) {
            std::uint32_t words[float_parts][4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float* x = &numbers.value[8 * j + 2 * piece];
                const BfloatParts parts(grid, x[0], x[1]);
                words[0][j] = parts.a;
                words[1][j] = parts.b;
                words[2][j] = parts.c;
            }
#pragma unroll
            for (int p = 0; p < float_parts; ++p) {
                const int of_row = chunk % chunks_of_part_tile * 2 * steps_of_chunk + piece;
                std::byte* to = queries + (p * tiles + chunk / chunks_of_part_tile) * Rows * row_bytes +
                                number * row_bytes + (of_row ^ (number % 8)) * 16;
                *reinterpret_cast<uint4*>(to) = make_uint4(words[p][0], words[p][1], words[p][2], words[p][3]);
            }
        }
    }
}

}  // namespace rowmax::cuda
