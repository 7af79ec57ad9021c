// Sizes as functions of the device and the shape.
#pragma once

#include <cstdint>

#include "core/params.hpp"

namespace rowmax::cuda {

/// Bytes of one slot of the ring, 128 tokens x 64 dimensions of 2 bytes, and of 64 dimensions of one query row.
inline constexpr int ring_slot_bytes = 16 * 1024;
inline constexpr int query_slot_bytes = 128;
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
constexpr std::int64_t chain_of(std::int64_t dim) {
    return dim <= tiled_dim_most ? tiled_dim_most : 128;
}

constexpr std::int64_t slots_of_dim(std::int64_t dim) {
    return (dim + 63) / 64;
}

/// Rows that a call's queries take when each is padded to whole groups of 8.
constexpr std::int64_t padded_rows(const core::Params& params) {
    const std::int64_t of_query = (params.q.max_length + 7) / 8 * 8;
    const std::int64_t one = of_query > 0 ? of_query : 8;
    return params.pairs.kind == core::PairKind::cross ? params.q.count * one : one;
}

/// Slots of each of `rings` rings beside `rows` query rows in `shared_bytes` of shared memory; 0 when they do not fit.
constexpr int ring_slots(std::int64_t dim, int rows, int control_bytes, int rings, int shared_bytes) {
    constexpr int alignment = 1024;
    const std::int64_t left = shared_bytes - alignment - control_bytes - slots_of_dim(dim) * rows * query_slot_bytes;
    const std::int64_t slots = left < 0 ? 0 : left / ring_slot_bytes / rings;
    if (slots < ring_slots_least) return 0;
    return static_cast<int>(slots < ring_slots_most ? slots : ring_slots_most);
}

/// Query rows of a block for a kernel that can take from `least` to `most`, in powers of two: as many as are wanted, or
/// as leave a ring that keeps the tensor cores busy.
constexpr int block_rows(std::int64_t dim, std::int64_t wanted, int least, int most, int control_bytes,
                         int shared_bytes) {
    constexpr int enough_slots = 4;
    int rows = least;
    while (rows < most && rows < wanted && ring_slots(dim, 2 * rows, control_bytes, 1, shared_bytes) >= enough_slots) {
        rows *= 2;
    }
    return rows;
}

/// Thread blocks of the portable kernel that share a multiprocessor.
inline constexpr int portable_blocks_each = 4;

}  // namespace rowmax::cuda
