// A ring of document tiles in shared memory: one warp fills it (document_producer.cuh), warpgroups multiply out of it.
//
//   slot    128 tokens x 64 dimensions of 2 bytes (128 bytes a token, SWIZZLE_128B), 16 KiB
//   tile    up to 128 consecutive tokens of one document, in ceil(d / 64) consecutive slots
//   full    barrier of a slot: the producer's arrival, and the bytes of its boxes where the copy engine brings them
//   empty   barrier of a slot: one arrival of every warp that reads it
//   stage   a slot; where the ring is used by whole tiles, the slots of a tile, with one barrier of either kind
//
// Tiles start at the document's first token (of the part), and only the boxes of 32 tokens that hold kept ones are
// loaded. What a tile holds is said in its first slot: tiles without kept tokens are left out, unless they begin or end
// a unit, which the readers must hear of.
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/prim/barrier.cuh"
#include "cuda/prim/token_type.cuh"
#include "cuda/prim/warp.cuh"
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
    static constexpr std::int32_t first_bit = 8, last_bit = 16, stop_bit = 32, inner_bit = 64, whole_bit = 128;
    /// Of a tile in whose bits nothing else is set: 128 kept tokens, with others before them and behind.
    static constexpr std::int32_t usual = inner_bit | 4;
    /// Boxes that are loaded: 0 to 4.
    [[nodiscard]] __device__ __forceinline__ int boxes() const { return bits & 7; }
    [[nodiscard]] __device__ __forceinline__ bool first() const { return (bits & first_bit) != 0; }
    [[nodiscard]] __device__ __forceinline__ bool last() const { return (bits & last_bit) != 0; }
    /// All tokens of the boxes that are loaded are kept.
    [[nodiscard]] __device__ __forceinline__ bool whole() const { return (bits & whole_bit) != 0; }
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
    std::int64_t first_scale;  ///< of codes: where the scales of the document begin
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
    /// Where readers move a slot's rows: how many there are, times 16, and in which byte of its piece the first starts.
    std::int32_t rows[most_stages];
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

/// Warps that fill a ring together, each a share of every slot, and which of them this one is.
struct Team {
    int member = 0;
    int members = 1;
};

/// Of a warp at a slot's barrier where its lanes' copies arrive by themselves, besides the warp.
inline constexpr int arrivals_of_copies = 33;

/// How many fill a ring where so many could.
__device__ __forceinline__ int filling_warps(const Arguments& call, int most) {
    return call.d_by_loads ? most : 1;
}

/// By the first thread of every warp, of which there must be most_stages, before the block's first barrier.
__device__ __forceinline__ void init_ring(DocumentRing& ring, std::byte* slots, int reading_warps,
                                          int arrivals_at_full) {
    const auto s = static_cast<int>(threadIdx.x / 32);
    if (s == 0) ring.slots = slots;
    if (s >= most_stages) return;
    init(&ring.full[s], static_cast<std::uint32_t>(arrivals_at_full));
    init(&ring.empty[s], static_cast<std::uint32_t>(reading_warps));
}

/// A reading warpgroup's view of the ring.
template <TokenType Type>
class DocumentReaderOf {
  public:
    /// `slots`: of a stage, more than one where stages hold whole tiles: then "slot" below is a stage.
    __device__ __forceinline__ DocumentReaderOf(DocumentRing& ring, int stages, int slots = 1)
        : ring_(ring),
          slots_(shared_address(ring.slots)),
          stages_(slots == 1 ? stages : stages / slots),
          stage_bytes_(slots * slot_bytes_of(Type)) {}

    /// Waits for the next tile's first slot.
    __device__ __forceinline__ const Tile& next() {
        wait_full();
        return ring_.tiles[place_.slot];
    }
    /// The tile whose first slot is next and is full.
    [[nodiscard]] __device__ __forceinline__ const Tile& tile() const { return ring_.tiles[place_.slot]; }
    /// What DocumentRing::rows has of the slot.
    [[nodiscard]] __device__ __forceinline__ int rows() const { return ring_.rows[place_.slot]; }
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
        return slots_ + static_cast<std::uint32_t>(place_.slot * stage_bytes_);
    }
    /// Where a slot has the first piece of 16 bytes of a token, as an address of shared memory: piece p is at that ^ 16
    /// p. No bank conflicts where lanes read tokens in order.
    [[nodiscard]] __device__ __forceinline__ std::uint32_t token(int slot, int token) const {
        return slots_ + static_cast<std::uint32_t>(slot * slot_bytes_of(Type) + token * row_bytes + token % 8 * 16);
    }
    [[nodiscard]] __device__ __forceinline__ int slot() const {
        return place_.slot;
    }
    /// Whether the slot is full, without a rest.
    [[nodiscard]] __device__ __forceinline__ bool is_full() const {
        return has_passed(&ring_.full[place_.slot], place_.phase);
    }
    [[nodiscard]] __device__ __forceinline__ DocumentRing& ring() const {
        return ring_;
    }
    /// Changes with every pass over the ring.
    [[nodiscard]] __device__ __forceinline__ std::uint32_t phase() const {
        return place_.phase;
    }
    __device__ __forceinline__ void advance() {
        place_.advance(stages_);
    }
    /// Leaves a slot that is not read further.
    __device__ __forceinline__ void leave() {
        release(place_.slot);
        advance();
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
    int stage_bytes_;
    RingPlace place_;
};

using DocumentReader = DocumentReaderOf<TokenType::f16>;

}  // namespace rowmax::cuda
