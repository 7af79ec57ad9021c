// What the kernel that projects hidden states is given, by value, and how a call is cut for it.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/kernels/arguments.hpp"

namespace rowmax::cuda {

/// A chunk of the hidden dimension is 128 bytes of each row.
inline constexpr int chunk_elements = 64;
/// Boxes of a chunk: half a tile, or a whole one, or all of W.
inline constexpr int projected_box_rows = 64;
inline constexpr int projected_whole_rows = 128;
/// A warpgroup projects a tile: 128 tokens of one document, all dimensions. Two warpgroups share the weights.
inline constexpr int projected_tile_tokens = 128;
inline constexpr int projected_dim_most = 128;
inline constexpr int projected_groups = 2;
/// Query rows are multiplied so many at a time.
inline constexpr int projected_columns = 32;
/// Beyond, documents are projected into memory first, and scored by the kernels for many rows.
inline constexpr int projected_rows_most = 256;

inline constexpr int projected_slot_bytes = (projected_groups * projected_tile_tokens + projected_dim_most) * 128;
inline constexpr int projected_row_bytes = projected_dim_most * 2;
inline constexpr int projected_stages_most = 4;

struct ProjectedArguments {
    CUtensorMap whole;
    CUtensorMap half;
    CUtensorMap weight;
    Arguments call;  ///< plan.parts: tiles of a document
    const void* bias = nullptr;
    bool normalize = false;
    std::int64_t tiles = 0;
    std::int64_t steps = 0;  ///< each a tile for every warpgroup
    int chunks = 0;
    int query_rows = 0;      ///< a multiple of projected_columns; 0 where tokens are wanted
    void* tokens = nullptr;  ///< [documents][length][token_elements]; null where scores are wanted
    int token_elements = 0;  ///< d, padded with zeros to a multiple of 8
};

/// Steps of thread block `number` of `blocks` begin here.
constexpr std::int64_t first_step(const ProjectedArguments& arguments, std::int64_t number, std::int64_t blocks) {
    return arguments.steps / blocks * number + arguments.steps % blocks * number / blocks;
}

}  // namespace rowmax::cuda
