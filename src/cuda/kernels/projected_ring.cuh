// The ring of the kernel that projects hidden states, and the warp that fills it.
//
//   slot    a chunk of both warpgroups' tiles (128 tokens x 128 bytes each), then of all rows of W (128 x 128 bytes)
//   full    barrier of a slot: the producer's arrival, and the bytes of its boxes
//   empty   barrier of a slot: one arrival of every reading warp
#pragma once

#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/projected_arguments.hpp"
#include "cuda/prim/bulk_tensor.cuh"

namespace rowmax::cuda {

struct ProjectedRing {
    Barrier full[projected_stages_most];
    Barrier empty[projected_stages_most];
    Tile tiles[projected_stages_most][projected_groups];  ///< of a step, beside its first chunk; boxes are of 64 tokens
};

/// By one thread, before the block's first barrier.
__device__ __forceinline__ void init_ring(ProjectedRing& ring) {
    for (int s = 0; s < projected_stages_most; ++s) {
        init(&ring.full[s], 1);
        init(&ring.empty[s], 4 * projected_groups);
    }
}

/// Number `index` of the tiles; unit.item is -1 beyond the last. By a whole warp.
__device__ __forceinline__ Tile projected_tile(const ProjectedArguments& arguments, std::int64_t index) {
    const core::Segments& d = arguments.call.params.d;
    const int parts = arguments.call.plan.parts;
    Tile tile{};
    tile.unit.item = -1;
    if (index >= arguments.tiles) return tile;
    const auto item = static_cast<int>(core::detail::quotient(index, parts));
    tile.unit = {0, item, static_cast<int>(index - std::int64_t{item} * parts)};
    tile.base = tile.unit.part * projected_tile_tokens;
    const core::Segment document = d.at(item);
    const auto lane = static_cast<int>(threadIdx.x % 32);
    int boxes = 0;
#pragma unroll
    for (int b = 0; b < boxes_of_tile; ++b) {
        const std::int64_t token = tile.base + 32 * b + lane;
        tile.keep[b] = ballot(token < d.length && d.keeps(document, token));
        if (tile.keep[b] != 0) boxes = b / 2 + 1;
    }
    tile.flags.bits = boxes;
    return tile;
}

class ProjectedProducer {
  public:
    __device__ __forceinline__ ProjectedProducer(ProjectedRing& ring, std::byte* slots,
                                                 const ProjectedArguments& arguments)
        : ring_(ring), slots_(slots), arguments_(arguments) {}

    /// By one warp.
    __device__ __forceinline__ void run() {
        const std::int64_t end = first_step(arguments_, blockIdx.x + 1, gridDim.x);
        for (std::int64_t step = first_step(arguments_, blockIdx.x, gridDim.x); step < end; ++step) {
            Tile tiles[projected_groups];
#pragma unroll
            for (int g = 0; g < projected_groups; ++g)
                tiles[g] = projected_tile(arguments_, step * projected_groups + g);
            if (threadIdx.x % 32 == 0) send(tiles);
            __syncwarp();
        }
    }

  private:
    static constexpr int box_bytes = projected_box_rows * row_bytes;
    static constexpr int tile_bytes = projected_tile_tokens * row_bytes;
    static constexpr int weight_boxes = projected_dim_most / projected_box_rows;

    __device__ __forceinline__ void send(const Tile (&tiles)[projected_groups]) {
        const int boxes = tiles[0].flags.boxes() + tiles[1].flags.boxes();
#pragma unroll 1
        for (int chunk = 0; chunk < arguments_.chunks; ++chunk) {
            // The first pass over the ring finds every slot empty.
            wait(&ring_.empty[place_.slot], place_.phase ^ 1U);
            Barrier* full = &ring_.full[place_.slot];
            std::byte* slot = slots_ + place_.slot * projected_slot_bytes;
            if (chunk == 0) {
#pragma unroll
                for (int g = 0; g < projected_groups; ++g) ring_.tiles[place_.slot][g] = tiles[g];
            }
            arrive_expecting(full, static_cast<std::uint32_t>((boxes + weight_boxes) * box_bytes));
#pragma unroll
            for (int g = 0; g < projected_groups; ++g) {
                const BoxCorner at{chunk * chunk_elements, tiles[g].base, 0, outer(tiles[g])};
                if (tiles[g].flags.boxes() == 2) {
                    copy_box(slot + g * tile_bytes, &arguments_.whole, at, full);
                } else if (tiles[g].flags.boxes() == 1) {
                    copy_box(slot + g * tile_bytes, &arguments_.half, at, full);
                }
            }
            const BoxCorner weights{chunk * chunk_elements, 0, 0, 0};
            copy_box(slot + projected_groups * tile_bytes, &arguments_.weight, weights, full);
            place_.advance(arguments_.call.stages);
        }
    }

    /// A broadcast document has size 1 in the tensor map.
    [[nodiscard]] __device__ __forceinline__ int outer(const Tile& tile) const {
        return arguments_.call.params.d.stride_outer == 0 ? 0 : tile.unit.item;
    }

    ProjectedRing& ring_;
    std::byte* slots_;
    const ProjectedArguments& arguments_;
    RingPlace place_;
};

/// A reading warp's view of the ring.
class ProjectedRingReader {
  public:
    __device__ __forceinline__ ProjectedRingReader(ProjectedRing& ring, std::byte* slots, int stages)
        : ring_(ring), slots_(shared_address(slots)), stages_(stages) {}

    __device__ __forceinline__ void wait_full() { wait(&ring_.full[place_.slot], place_.phase); }
    [[nodiscard]] __device__ __forceinline__ const Tile& tile(int group) const {
        return ring_.tiles[place_.slot][group];
    }
    [[nodiscard]] __device__ __forceinline__ std::uint32_t tokens(int group) const {
        return address() + static_cast<std::uint32_t>(group * projected_tile_tokens * row_bytes);
    }
    [[nodiscard]] __device__ __forceinline__ std::uint32_t weights() const { return tokens(projected_groups); }
    [[nodiscard]] __device__ __forceinline__ int slot() const { return place_.slot; }
    __device__ __forceinline__ void advance() { place_.advance(stages_); }
    /// This warp has read the slot.
    __device__ __forceinline__ void release(int slot) {
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&ring_.empty[slot]);
    }

  private:
    [[nodiscard]] __device__ __forceinline__ std::uint32_t address() const {
        return slots_ + static_cast<std::uint32_t>(place_.slot * projected_slot_bytes);
    }

    ProjectedRing& ring_;
    std::uint32_t slots_;
    int stages_;
    RingPlace place_;
};

}  // namespace rowmax::cuda
