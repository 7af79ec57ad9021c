// A ring of document tiles in shared memory: one warp fills it through the copy engine, warpgroups multiply out of it.
//
//   slot    128 tokens x 64 dimensions (128 bytes a token, SWIZZLE_128B), 16 KiB
//   tile    up to 128 consecutive tokens of one document, in ceil(d / 64) consecutive slots
//   full    barrier of a slot: the producer's arrival and the bytes of its boxes
//   empty   barrier of a slot: one arrival of every warp that reads it
//
// Tiles start at the document's first token (of the part), and only the boxes of 32 tokens that hold kept ones are
// loaded. What a tile holds is said in its first slot: tiles without kept tokens are left out, unless they begin or end
// a unit, which the readers must hear of.
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/share.cuh"
#include "cuda/prim/barrier.cuh"
#include "cuda/prim/bulk_tensor.cuh"

namespace rowmax::cuda {

inline constexpr int tile_tokens = 128;
inline constexpr int box_tokens = 32;
inline constexpr int boxes_of_tile = tile_tokens / box_tokens;
inline constexpr int slot_dims = 64;
inline constexpr int row_bytes = 128;
inline constexpr int box_bytes = box_tokens * row_bytes;
inline constexpr int slot_bytes = tile_tokens * row_bytes;
inline constexpr int most_stages = 12;

struct alignas(16) Tile {
    std::uint32_t keep[boxes_of_tile];  ///< bit t: token t of the box is kept
    Unit unit;
    std::int32_t base;   ///< the tile's first token, counted from the document's first
    std::int32_t boxes;  ///< loaded: 0 to 4
    std::int32_t first;  ///< of its unit
    std::int32_t last;
    std::int32_t stop;  ///< no more units
};

/// The first kept token of a tile that has one.
__device__ __forceinline__ int first_kept(const Tile& tile) {
    int box = 0;
    while (tile.keep[box] == 0) ++box;
    return tile.base + box * box_tokens + __ffs(static_cast<int>(tile.keep[box])) - 1;
}

struct DocumentRing {
    std::byte* slots;
    Barrier full[most_stages];
    Barrier empty[most_stages];
    Tile tiles[most_stages];
};

/// A place in the ring, and how often it was passed.
struct RingPlace {
    int slot = 0;
    std::uint32_t phase = 0;
    __device__ __forceinline__ void advance(int stages) {
        if (++slot == stages) {
            slot = 0;
            phase ^= 1U;
        }
    }
};

/// By one thread, before the block's first barrier.
__device__ __forceinline__ void init_ring(DocumentRing& ring, std::byte* slots, int stages, int reading_warps) {
    ring.slots = slots;
    for (int s = 0; s < stages; ++s) {
        init(&ring.full[s], 1);
        init(&ring.empty[s], static_cast<std::uint32_t>(reading_warps));
    }
}

/// The producing warp. All lanes together look at masks; lane 0 fills slots.
class DocumentProducer {
  public:
    __device__ __forceinline__ DocumentProducer(DocumentRing& ring, const TiledArguments& arguments)
        : ring_(ring), arguments_(arguments), lane_(static_cast<int>(threadIdx.x % 32)) {}

    __device__ __forceinline__ void run() {
        const core::Params& params = arguments_.call.params;
        const Share share = share_of(params, arguments_.call.plan);
        for (std::int64_t first = share.begin; first < share.end; first += 32) {
            // Each lane looks one unit up; then they go through them together.
            Unit mine;
            core::Segment document;
            BoxCorner corner{0, 0, 0, 0};
            if (first + lane_ < share.end) {
                mine = unit_at(arguments_.call.plan, first + lane_);
                const std::int64_t item = document_of(params, arguments_.call.plan, mine);
                document = params.d.at(item);
                corner = corner_of(params.d, item, document);
            }
            const int count = static_cast<int>(share.end - first < 32 ? share.end - first : 32);
            for (int i = 0; i < count; ++i) {
                const Unit unit{from_lane(mine.block, i), from_lane(mine.item, i), from_lane(mine.part, i)};
                core::Segment segment;
                segment.length = from_lane(document.length, i);
                segment.mask_offset = from_lane(document.mask_offset, i);
                const BoxCorner at{0, from_lane(corner.token, i), from_lane(corner.inner, i),
                                   from_lane(corner.outer, i)};
                send_unit(unit, segment, at);
            }
        }
        Tile end{};
        end.stop = 1;
        send(end, {0, 0, 0, 0});
    }

  private:
    __device__ __forceinline__ static BoxCorner corner_of(const core::Segments& d, std::int64_t item,
                                                          const core::Segment& document) {
        if (d.kind != core::SegmentKind::strided) {
            return {0, static_cast<std::int32_t>(document.first_row), 0, 0};
        }
        // A broadcast dimension has size 1 in the tensor map.
        return {0, 0, d.stride_inner == 0 ? 0 : static_cast<std::int32_t>(item % d.inner),
                d.stride_outer == 0 ? 0 : static_cast<std::int32_t>(item / d.inner)};
    }

    __device__ __forceinline__ void send_unit(const Unit& unit, const core::Segment& segment, BoxCorner at) {
        const TokenRange range = tokens_of_part(arguments_.call.plan, unit.part, segment.length, tile_tokens);
        const int document_start = at.token;
        for (std::int64_t base = range.begin;; base += tile_tokens) {
            Tile tile;
            tile.unit = unit;
            tile.base = static_cast<std::int32_t>(base);
            tile.first = base == range.begin ? 1 : 0;
            tile.last = base + tile_tokens >= range.end ? 1 : 0;
            tile.stop = 0;
            tile.boxes = 0;
            for (int b = 0; b < boxes_of_tile; ++b) {
                tile.keep[b] = kept(segment, base + b * box_tokens, range.end);
                if (tile.keep[b] != 0) tile.boxes = b + 1;
            }
            at.token = document_start + static_cast<std::int32_t>(base);
            if (tile.boxes > 0 || tile.first != 0 || tile.last != 0) send(tile, at);
            if (tile.last != 0) return;
        }
    }

    /// Which of the 32 tokens from `token` on are kept.
    __device__ __forceinline__ std::uint32_t kept(const core::Segment& segment, std::int64_t token, std::int64_t end) {
        const std::int64_t left = end - token;
        if (left <= 0) return 0;
        if (arguments_.call.params.d.mask.data == nullptr) return left >= 32 ? all_lanes : (1U << left) - 1U;
        return ballot(lane_ < left && arguments_.call.params.d.keeps(segment, token + lane_));
    }

    __device__ __forceinline__ void send(const Tile& tile, BoxCorner at) {
        const int stages = arguments_.call.stages;
        const int slots =
            tile.boxes == 0 ? 1 : static_cast<int>((arguments_.call.params.dim + slot_dims - 1) / slot_dims);
        for (int s = 0; s < slots; ++s) {
            if (lane_ == 0) {
                // The first pass over the ring finds every slot empty.
                wait(&ring_.empty[place_.slot], place_.phase ^ 1U);
                if (s == 0) ring_.tiles[place_.slot] = tile;
                fill(tile.boxes, at);
            }
            at.element += slot_dims;
            place_.advance(stages);
        }
        __syncwarp();
    }

    __device__ __forceinline__ void fill(int boxes, BoxCorner at) {
        Barrier* full = &ring_.full[place_.slot];
        std::byte* to = ring_.slots + place_.slot * slot_bytes;
        if (boxes == 0) return arrive(full);
        arrive_expecting(full, static_cast<std::uint32_t>(boxes * box_bytes));
        if (boxes == boxes_of_tile) return copy_box(to, &arguments_.tile, at, full);
        for (int b = 0; b < boxes; ++b, at.token += box_tokens) {
            copy_box(to + b * box_bytes, &arguments_.quarter, at, full);
        }
    }

    DocumentRing& ring_;
    const TiledArguments& arguments_;
    int lane_;
    RingPlace place_;
};

/// A reading warpgroup's view of the ring.
class DocumentReader {
  public:
    __device__ __forceinline__ DocumentReader(DocumentRing& ring, int stages) : ring_(ring), stages_(stages) {}

    /// Waits for the next tile's first slot.
    __device__ __forceinline__ const Tile& next() {
        wait_full();
        return ring_.tiles[place_.slot];
    }
    __device__ __forceinline__ void wait_full() { wait(&ring_.full[place_.slot], place_.phase); }
    [[nodiscard]] __device__ __forceinline__ const std::byte* data() const {
        return ring_.slots + place_.slot * slot_bytes;
    }
    [[nodiscard]] __device__ __forceinline__ int slot() const { return place_.slot; }
    __device__ __forceinline__ void advance() { place_.advance(stages_); }
    /// This warp has read the slot.
    __device__ __forceinline__ void release(int slot) {
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&ring_.empty[slot]);
    }

  private:
    DocumentRing& ring_;
    int stages_;
    RingPlace place_;
};

}  // namespace rowmax::cuda
