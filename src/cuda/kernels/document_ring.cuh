// A ring of document tiles in shared memory: one warp fills it through the copy engine, warpgroups multiply out of it.
//
//   slot    128 tokens x 64 dimensions of 2 bytes (128 bytes a token, SWIZZLE_128B), 16 KiB
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
#include "cuda/prim/token_type.cuh"
#include "cuda/tuning.hpp"

namespace rowmax::cuda {

inline constexpr int tile_tokens = 128;
inline constexpr int box_tokens = 32;
inline constexpr int boxes_of_tile = tile_tokens / box_tokens;
inline constexpr int slot_dims = 64;
inline constexpr int row_bytes = 128;
inline constexpr int pieces_of_slot = row_bytes / 16;
inline constexpr int box_bytes = box_tokens * row_bytes;
inline constexpr int slot_bytes = tile_tokens * row_bytes;
inline constexpr int most_stages = 12;

/// What a slot's tile is, packed: readers look at it once.
struct TileFlags {
    std::int32_t bits = 0;
    static constexpr std::int32_t first_bit = 8, last_bit = 16, stop_bit = 32, inner_bit = 64;
    /// Of a tile in whose bits nothing else is set: 128 kept tokens, with others before them and behind.
    static constexpr std::int32_t usual = inner_bit | 4;
    /// Boxes that are loaded: 0 to 4.
    [[nodiscard]] __device__ __forceinline__ int boxes() const { return bits & 7; }
    [[nodiscard]] __device__ __forceinline__ bool first() const { return (bits & first_bit) != 0; }
    [[nodiscard]] __device__ __forceinline__ bool last() const { return (bits & last_bit) != 0; }
    /// No more units.
    [[nodiscard]] __device__ __forceinline__ bool stop() const { return (bits & stop_bit) != 0; }
};

/// Which tokens of a document a tile has.
struct TileTokens {
    std::uint32_t keep[boxes_of_tile];  ///< bit t: token t of the box is kept
    std::int32_t base;                  ///< the tile's first token, counted from the document's first
};

struct alignas(16) Tile {
    std::uint32_t keep[boxes_of_tile];
    Unit unit;
    std::int32_t base;
    TileFlags flags;
};

/// What readers need to know of a tile, in registers.
struct TileHead {
    TileFlags flags;
    std::uint32_t keep[boxes_of_tile];
    int base;
    Unit unit;
};

/// The first kept token of a tile that has one and starts at token `base`.
__device__ __forceinline__ int first_kept(const std::uint32_t (&keep)[boxes_of_tile], int base) {
    int token = base;
    bool found = false;
#pragma unroll
    for (int b = 0; b < boxes_of_tile; ++b) {
        if (found || keep[b] == 0) continue;
        token = base + b * box_tokens + __ffs(static_cast<int>(keep[b])) - 1;
        found = true;
    }
    return token;
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

/// By the first thread of every warp, of which there must be most_stages, before the block's first barrier.
__device__ __forceinline__ void init_ring(DocumentRing& ring, std::byte* slots, int reading_warps) {
    const auto s = static_cast<int>(threadIdx.x / 32);
    if (s == 0) ring.slots = slots;
    if (s >= most_stages) return;
    init(&ring.full[s], 1);
    init(&ring.empty[s], static_cast<std::uint32_t>(reading_warps));
}

/// The producing warp of ring `number` of `rings`: it takes every so-manieth unit of the block's share. All lanes
/// together look at masks; lane 0 fills slots.
template <TokenType Type = TokenType::f16>
class DocumentProducer {
  public:
    __device__ __forceinline__ DocumentProducer(DocumentRing& ring, const TiledArguments& arguments, int number,
                                                int rings)
        : ring_(ring),
          arguments_(arguments),
          slots_of_tile_(static_cast<int>((arguments.call.params.dim + slot_dims_of(Type) - 1) / slot_dims_of(Type))),
          number_(number),
          rings_(rings) {}

    __device__ __forceinline__ void run() {
        const Share share = share_of(arguments_.call.params, arguments_.call.plan);
        const std::int64_t step = 32 * rings_;
        for (std::int64_t first = share.begin + number_; first < share.end; first += step) {
            // Each lane looks one unit up; then they go through them together.
            Work mine;
            const std::int64_t unit = first + lane_ * rings_;
            if (unit < share.end) look_up(unit, mine);
            const std::int64_t left = (share.end - first + rings_ - 1) / rings_;
            const int count = static_cast<int>(left < 32 ? left : 32);
            for (int i = 0; i < count; ++i) send_unit(work_of(mine, i));
        }
        Tile end{};
        end.flags.bits = TileFlags::stop_bit;
        send(end, {0, 0, 0, 0});
    }

  private:
    static constexpr int tokens = tile_tokens_of(Type);

    struct Work {
        Unit unit;
        BoxCorner corner{0, 0, 0, 0};
        int begin = 0;
        int end = 0;
        std::int64_t mask_offset = 0;
    };

    __device__ __forceinline__ void look_up(std::int64_t number, Work& work) const {
        const core::Params& params = arguments_.call.params;
        if (!arguments_.call.plan.plain_documents) {
            work = look_up_any(params, arguments_.call.plan, number);
            return;
        }
        const auto item = static_cast<int>(number);
        work.unit = {0, item, 0};
        work.corner = {0, 0, 0, params.d.stride_outer == 0 ? 0 : item};
        work.end = static_cast<int>(params.d.length);
        work.mask_offset = item * params.d.mask.stride_outer;
    }

    // Out of line: see share_by_tokens.
    __device__ __noinline__ static Work look_up_any(const core::Params& params, const Plan& plan, std::int64_t number) {
        Work work;
        work.unit = unit_at(plan, number);
        const std::int64_t item = document_of(params, plan, work.unit);
        const core::Segment document = params.d.at(item);
        const TokenRange range = tokens_of_part(plan, work.unit.part, document.length, tokens);
        work.corner = corner_of(params.d, item, document);
        work.begin = static_cast<int>(range.begin);
        work.end = static_cast<int>(range.end);
        work.mask_offset = document.mask_offset;
        return work;
    }

    __device__ __forceinline__ static Work work_of(const Work& mine, int lane) {
        Work work;
        work.unit = {from_lane(mine.unit.block, lane), from_lane(mine.unit.item, lane),
                     from_lane(mine.unit.part, lane)};
        work.corner = {0, from_lane(mine.corner.token, lane), from_lane(mine.corner.inner, lane),
                       from_lane(mine.corner.outer, lane)};
        work.begin = from_lane(mine.begin, lane);
        work.end = from_lane(mine.end, lane);
        work.mask_offset = from_lane(mine.mask_offset, lane);
        return work;
    }

    __device__ __forceinline__ static BoxCorner corner_of(const core::Segments& d, std::int64_t item,
                                                          const core::Segment& document) {
        if (d.kind != core::SegmentKind::strided) {
            return {0, static_cast<std::int32_t>(document.first_row), 0, 0};
        }
        // A broadcast dimension has size 1 in the tensor map.
        const std::int64_t outer = d.inner == 1 ? item : core::detail::quotient(item, d.inner);
        return {0, 0, d.stride_inner == 0 ? 0 : static_cast<std::int32_t>(item - outer * d.inner),
                d.stride_outer == 0 ? 0 : static_cast<std::int32_t>(outer)};
    }

    __device__ __forceinline__ void send_unit(const Work& work) {
        int first = TileFlags::first_bit;
        bool opened = false;
        for (int base = work.begin;; base += tokens, first = 0) {
            Tile tile;
            tile.unit = work.unit;
            tile.base = base;
            const int last = base + tokens >= work.end ? TileFlags::last_bit : 0;
            int boxes = 0;
#pragma unroll
            for (int b = 0; b < boxes_of_tile; ++b) {
                tile.keep[b] = b < tokens / box_tokens ? kept(work, base + b * box_tokens) : 0;
                if (tile.keep[b] != 0) boxes = b + 1;
            }
            tile.flags.bits = boxes | first | last;
            if (opened && last == 0 && whole(tile)) tile.flags.bits = TileFlags::usual;
            opened = opened || boxes > 0;
            BoxCorner at = work.corner;
            at.token += base;
            if (tile.flags.bits != 0) send(tile, at);
            if (last != 0) return;
        }
    }

    __device__ __forceinline__ static bool whole(const Tile& tile) {
        return (tile.keep[0] & tile.keep[1] & tile.keep[2] & tile.keep[3]) == all_lanes;
    }

    /// Which of the 32 tokens from `token` on are kept.
    __device__ __forceinline__ std::uint32_t kept(const Work& work, int token) const {
        const int left = work.end - token;
        if (left <= 0) return 0;
        const core::Segments& d = arguments_.call.params.d;
        if (d.mask.data == nullptr) return left >= 32 ? all_lanes : (1U << left) - 1U;
        return kept_by_mask(d, work.mask_offset, token, left);
    }
    __device__ __noinline__ static std::uint32_t kept_by_mask(const core::Segments& d, std::int64_t offset, int token,
                                                              int left) {
        core::Segment document;
        document.mask_offset = offset;
        const auto lane = static_cast<int>(threadIdx.x % 32);
        return ballot(lane < left && d.keeps(document, token + lane));
    }

    __device__ __forceinline__ void send(const Tile& tile, BoxCorner at) {
        const int stages = arguments_.call.stages;
        const int boxes = tile.flags.boxes();
        const int slots = boxes == 0 ? 1 : slots_of_tile_;
#pragma unroll 1
        for (int s = 0; s < slots; ++s) {
            if (lane_ == 0) {
                // The first pass over the ring finds every slot empty.
                wait(&ring_.empty[place_.slot], place_.phase ^ 1U);
                if (s == 0) ring_.tiles[place_.slot] = tile;
                fill(boxes, at);
            }
            at.element += slot_dims_of(Type);
            place_.advance(stages);
        }
        __syncwarp();
    }

    __device__ __forceinline__ void fill(int boxes, BoxCorner at) {
        Barrier* full = &ring_.full[place_.slot];
        std::byte* to = ring_.slots + place_.slot * slot_bytes_of(Type);
        if (boxes == 0) return arrive(full);
        arrive_expecting(full, static_cast<std::uint32_t>(boxes * box_bytes));
        if (boxes == tokens / box_tokens) return copy_box(to, &arguments_.tile, at, full);
#pragma unroll 1
        for (int b = 0; b < boxes; ++b, at.token += box_tokens) {
            copy_box(to + b * box_bytes, &arguments_.quarter, at, full);
        }
    }

    DocumentRing& ring_;
    const TiledArguments& arguments_;
    const int slots_of_tile_;
    const int number_;
    const int rings_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    RingPlace place_;
};

/// A reading warpgroup's view of the ring.
template <TokenType Type>
class DocumentReaderOf {
  public:
    __device__ __forceinline__ DocumentReaderOf(DocumentRing& ring, int stages)
        : ring_(ring), slots_(shared_address(ring.slots)), stages_(stages) {}

    /// Waits for the next tile's first slot.
    __device__ __forceinline__ const Tile& next() {
        wait_full();
        return ring_.tiles[place_.slot];
    }
    /// The tile whose first slot is next and is full.
    [[nodiscard]] __device__ __forceinline__ const Tile& tile() const { return ring_.tiles[place_.slot]; }
    __device__ __forceinline__ void read_head(TileHead& head) {
        const Tile& tile = next();
        head.flags.bits = uniform(tile.flags.bits);
#pragma unroll
        for (int b = 0; b < boxes_of_tile; ++b) head.keep[b] = tile.keep[b];
        head.base = tile.base;
        head.unit = tile.unit;
    }
    __device__ __forceinline__ void wait_full() {
        wait(&ring_.full[place_.slot], place_.phase);
    }
    /// Of the slot, in shared memory.
    [[nodiscard]] __device__ __forceinline__ std::uint32_t address() const {
        return slots_ + static_cast<std::uint32_t>(place_.slot * slot_bytes_of(Type));
    }
    /// Where a slot has the first piece of 16 bytes of a token, as an address of shared memory: piece p is at that ^ 16
    /// p. No bank conflicts where lanes read tokens in order.
    [[nodiscard]] __device__ __forceinline__ std::uint32_t token(int slot, int token) const {
        return slots_ + static_cast<std::uint32_t>(slot * slot_bytes_of(Type) + token * row_bytes + token % 8 * 16);
    }
    [[nodiscard]] __device__ __forceinline__ int slot() const {
        return place_.slot;
    }
    __device__ __forceinline__ void advance() {
        place_.advance(stages_);
    }
    /// Leaves a slot that is not read further.
    __device__ __forceinline__ void leave() {
        release(place_.slot);
        advance();
    }
    /// This warp has read `count` slots from this one on.
    __device__ __forceinline__ void release_all(int slot, int count) {
        __syncwarp();
#pragma unroll 1
        for (int s = 0; s < count; ++s) {
            if (threadIdx.x % 32 == 0) arrive(&ring_.empty[slot]);
            slot = slot + 1 == stages_ ? 0 : slot + 1;
        }
    }
    /// This warp has read the slot.
    __device__ __forceinline__ void release(int slot) {
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&ring_.empty[slot]);
    }

  private:
    DocumentRing& ring_;
    std::uint32_t slots_;
    int stages_;
    RingPlace place_;
};

using DocumentReader = DocumentReaderOf<TokenType::f16>;

}  // namespace rowmax::cuda
