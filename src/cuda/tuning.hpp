// Sizes as functions of the device and the shape.
#pragma once

#include <cstdint>

#include "core/params.hpp"
#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

/// A slot of the ring holds 128 bytes of each token of a tile.
inline constexpr int slot_row_bytes = 128;
/// float32 tokens that are multiplied in parts come in smaller tiles: each warpgroup takes a tile as a whole, and its
/// registers hold no more.
constexpr int tile_tokens_of(TokenType type) {
    return type == TokenType::f32 ? 64 : 128;
}
constexpr int slot_dims_of(TokenType type) {
    return slot_row_bytes / bytes_of(type);
}
constexpr int slot_bytes_of(TokenType type) {
    return tile_tokens_of(type) * slot_row_bytes;
}
/// What a slot has beside it where tokens do not start at multiples of 16 bytes.
constexpr int ninths_bytes_of(TokenType type) {
    return tile_tokens_of(type) * 16;
}
inline constexpr int ring_slots_most = 12;
/// Less is no ring: nothing is on its way while something is read.
inline constexpr int ring_slots_least = 2;

/// Most query rows of the kernel that puts document tokens on the matrix unit's long side: beyond, the tensor cores and
/// not the memory are the limit, and the kernel for many rows feeds them better.
inline constexpr std::int64_t few_rows_most = 128;

/// Most of them with normalize, for want of registers.
inline constexpr std::int64_t few_normalized_rows_most = 64;

/// Products that the tensor cores add up before the sum is put aside: they round down, always, and longer chains would
/// break the bound of the error. Kernels that have no aside take no more dimensions than one chain.
inline constexpr std::int64_t tiled_dim_most = 192;
constexpr std::int64_t chain_of(TokenType type, std::int64_t dim) {
    constexpr std::int64_t no_end = std::int64_t{1} << 20;
    if (type == TokenType::tf32) return no_end;  // what its operands lack is a hundred times more
    if (type == TokenType::i8) return no_end;    // exact
    return dim <= tiled_dim_most ? tiled_dim_most : 128;
}

/// Most dimensions of the kernels without an aside; of 8-bit codes, as many as fill the slots that a tile of 16-bit
/// tokens may take.
constexpr std::int64_t one_tile_dim_most(TokenType type) {
    return is_scaled(type) ? 3 * slot_dims_of(type) : chain_of(type, tiled_dim_most);
}

/// A query row in shared memory: as a token's slots, or 64 dimensions of each of the three parts of float32.
constexpr std::int64_t query_row_bytes(TokenType type, std::int64_t dim) {
    const std::int64_t parts = type == TokenType::f32 ? 3 : 1;
    const std::int64_t dims = type == TokenType::f32 ? 64 : slot_dims_of(type);
    return (dim + dims - 1) / dims * parts * slot_row_bytes;
}

/// Rows that a call's queries take when each is padded to whole groups of 8.
constexpr std::int64_t padded_rows(const core::Params& params) {
    const std::int64_t of_query = (params.q.max_length + 7) / 8 * 8;
    const std::int64_t one = of_query > 0 ? of_query : 8;
    return params.pairs.kind == core::PairKind::cross ? params.q.count * one : one;
}

/// Slots of each of `rings` rings beside `rows` query rows in `shared_bytes` of shared memory; 0 when they do not fit.
/// `beside`: bytes that come with each slot.
constexpr int ring_slots(TokenType type, std::int64_t dim, int rows, int control_bytes, int rings, int shared_bytes,
                         int beside = 0) {
    constexpr int alignment = 1024;
    const std::int64_t left = shared_bytes - alignment - control_bytes - query_row_bytes(type, dim) * rows;
    const std::int64_t slots = left < 0 ? 0 : left / (slot_bytes_of(type) + beside) / rings;
    if (slots < ring_slots_least) return 0;
    return static_cast<int>(slots < ring_slots_most ? slots : ring_slots_most);
}

/// Query rows of a block for a kernel that can take from `least` to `most`, in powers of two: as many as are wanted, or
/// as leave a ring that keeps the tensor cores busy.
constexpr int block_rows(TokenType type, std::int64_t dim, std::int64_t wanted, int least, int most, int control_bytes,
                         int shared_bytes) {
    constexpr int enough_slots = 4;
    int rows = least;
    while (rows < most && rows < wanted &&
           ring_slots(type, dim, 2 * rows, control_bytes, 1, shared_bytes) >= enough_slots) {
        rows *= 2;
    }
    return rows;
}

/// Thread blocks of the portable kernel that share a multiprocessor.
inline constexpr int portable_blocks_each = 4;

}  // namespace rowmax::cuda
