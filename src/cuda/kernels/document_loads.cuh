// Document tiles that the copy engine cannot read: strides that are no multiples of 16 bytes, tokens that overlap or
// descend, arrays beyond its numbers. The producing warp copies them itself, in the layout that the copy engine would
// give them. Where other warps have nothing to do, they help: a slot is full when each has arrived.
//
// Tokens are copied by the aligned pieces of 16 bytes that they lie in, past L1, which would hold too little of what is
// under way; so a row of a slot arrives up to 15 bytes too early, and its ninth piece beside the slot. When a slot's
// pieces are there, its rows are moved to where they belong. That is waited for a few slots later: until then a slot
// is *open*.
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/document_ring.cuh"
#include "cuda/prim/copy_async.cuh"
#include "cuda/prim/shared.cuh"
#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

/// MovesAtOnce: pieces that are moved side by side, which takes 8 registers each.
template <TokenType Type, int MovesAtOnce>
class DocumentLoads {
  public:
    /// A document's first token.
    using Place = const std::byte*;
    /// So much that function calls would have to put it aside.
    static constexpr bool keeps_much = true;

    __device__ __forceinline__ DocumentLoads(DocumentRing& ring, const TiledArguments& arguments, int number, int rings,
                                             const Team& team)
        : ring_(ring),
          call_(arguments.call),
          team_(team),
          ninths_(end_of_shared_memory() -
                  static_cast<std::uint32_t>((rings - number) * arguments.call.stages * ninths_bytes_of(Type))) {}

    __device__ __forceinline__ static Place plain_place(const core::Segments& d, int item) {
        return d.data + item * d.stride_outer;
    }
    __device__ __forceinline__ static Place place_of(const core::Segments&, std::int64_t,
                                                     const core::Segment& document) {
        return document.data;
    }

    /// `tile` of a document that ends `left` tokens behind the tile's first.
    __device__ __forceinline__ void send(const Tile& tile, Place document, int left) {
        const int boxes = tile.flags.boxes();
        const int slots = boxes == 0 ? 1 : (token_bytes() + row_bytes - 1) / row_bytes;
        const std::byte* first = document + tile.base * call_.params.d.row_stride;
        const int count = boxes * box_tokens < left ? boxes * box_tokens : left;
        make_room();
        if (team_.member == 0 && lane_ == 0) ring_.tiles[next_.slot] = tile;
        for (int s = 0; s < slots; ++s) {
            if (s > 0) make_room();
            copy(first + s * row_bytes, count, token_bytes() - s * row_bytes);
            close_copy_group();
            if (lane_ == next_.slot) rows_of_slot_ = count * 16 + offset_in_piece(first);
            next_.advance(call_.stages);
            ++open_;
        }
    }

    __device__ __forceinline__ void send_end(const Tile& end) {
        while (open_ > 0) close_oldest();
        while (!next_is_empty()) {
        }
        if (lane_ != 0) return;
        if (team_.member == 0) ring_.tiles[next_.slot] = end;
        arrive(&ring_.full[next_.slot]);
    }

  private:
    static constexpr int open_slots = 3;
    static constexpr int lanes_of_row = pieces_of_slot;
    static constexpr int rows_at_once = 32 / lanes_of_row;
    /// With more of them the addresses of float32 spill.
    static constexpr int copies_laid_out = bytes_of(Type) == 4 ? 2 : 4;

    /// This lane's first row of a slot; the next is rows_of_step() further.
    [[nodiscard]] __device__ __forceinline__ int first_row() const {
        return team_.member * rows_at_once + lane_ / lanes_of_row;
    }
    [[nodiscard]] __device__ __forceinline__ int rows_of_step() const { return team_.members * rows_at_once; }

    // Registers are short: what is found anew in a moment is not kept.
    [[nodiscard]] __device__ __forceinline__ int token_bytes() const {
        return static_cast<int>(call_.params.dim) * bytes_of(Type);
    }
    [[nodiscard]] __device__ __forceinline__ int most_open() const {
        return call_.stages <= open_slots ? call_.stages - 1 : open_slots;
    }
    [[nodiscard]] __device__ __forceinline__ std::uint32_t slot_address(int slot) const {
        return shared_address(ring_.slots) + static_cast<std::uint32_t>(slot * slot_bytes_of(Type));
    }
    [[nodiscard]] __device__ __forceinline__ std::uint32_t ninths_address(int slot) const {
        return ninths_ + static_cast<std::uint32_t>(slot * ninths_bytes_of(Type));
    }
    /// Of a piece of a row, which says what of a slot: SWIZZLE_128B.
    __device__ __forceinline__ static std::uint32_t piece_offset(int row, int piece) {
        return static_cast<std::uint32_t>(row * row_bytes + (piece ^ row % 8) * 16);
    }
    __device__ __forceinline__ static int offset_in_piece(const std::byte* address) {
        return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % 16);
    }

    __device__ __forceinline__ bool next_is_empty() {
        const bool empty = uniform(passed(&ring_.empty[next_.slot], next_.phase ^ 1U) ? 1 : 0) != 0;
        __syncwarp();
        return empty;
    }

    // Readers may wait for what is open before they leave a slot.
    __device__ __forceinline__ void make_room() {
        while (open_ > most_open() || !next_is_empty()) {
            if (open_ > 0) close_oldest();
        }
    }

    /// Hands the slot over that has been open for the longest time.
    __device__ __forceinline__ void close_oldest() {
        --open_;
        wait_for_copies(open_);
        if (call_.d_shifted) {
            __syncwarp();
            move(oldest_.slot, from_lane(rows_of_slot_, oldest_.slot));
        }
        fence_async_proxy();
        __syncwarp();
        if (lane_ == 0) arrive(&ring_.full[oldest_.slot]);
        oldest_.advance(call_.stages);
    }

    __device__ __forceinline__ static void wait_for_copies(int open) {
        static_assert(open_slots == 3);
        switch (open) {
            case 0: return wait_copy_groups<0>();
            case 1: return wait_copy_groups<1>();
            case 2: return wait_copy_groups<2>();
            default: return wait_copy_groups<3>();
        }
    }

    /// The piece in which `from` lies: what it has from `left` bytes behind `from` on becomes zero.
    __device__ __forceinline__ static void copy_piece(std::uint32_t to, const std::byte* from, int left) {
        const int offset = offset_in_piece(from);
        const int bytes = left + offset;
        copy_up_to_16_bytes(to, from - offset, bytes < 0 ? 0 : (bytes < 16 ? bytes : 16));
    }
    /// The whole of it.
    __device__ __forceinline__ static void copy_piece(std::uint32_t to, const std::byte* from) {
        copy_16_bytes(to,
                      reinterpret_cast<const std::byte*>(reinterpret_cast<std::uintptr_t>(from) & ~std::uintptr_t{15}));
    }

    /// Up to 128 bytes of `count` tokens, whose numbers end `bytes` behind `first`; zeros there.
    __device__ __forceinline__ void copy(const std::byte* first, int count, int bytes) const {
        const std::int64_t stride = call_.params.d.row_stride;
        const int piece = lane_ % lanes_of_row;
        const std::byte* from = first + first_row() * stride + piece * 16;
        const std::uint32_t slot = slot_address(next_.slot);
        if (bytes >= row_bytes) {
#pragma unroll copies_laid_out
            for (int row = first_row(); row < count; row += rows_of_step()) {
                copy_piece(slot + piece_offset(row, piece), from);
                from += rows_of_step() * stride;
            }
        } else {
#pragma unroll 1
            for (int row = first_row(); row < count; row += rows_of_step()) {
                copy_piece(slot + piece_offset(row, piece), from, bytes - piece * 16);
                from += rows_of_step() * stride;
            }
        }
        if (!call_.d_shifted) return;
        const std::uint32_t ninths = ninths_address(next_.slot);
        const int behind = (bytes < row_bytes ? bytes : row_bytes) - row_bytes;
        const int mine = lane_ / rows_at_once * rows_of_step() + team_.member * rows_at_once + lane_ % rows_at_once;
#pragma unroll 1
        for (int row = mine; row < count; row += lanes_of_row * rows_of_step()) {
            copy_piece(ninths + static_cast<std::uint32_t>(row * 16), first + row * stride + row_bytes, behind);
        }
    }

    /// Moves what was copied too early. `rows`: how many there are, and where in its piece the first one starts.
    /// Several pieces at once, since this warp alone has to hide how long each takes.
    __device__ __forceinline__ void move(int slot, int rows) const {
        const int count = rows / 16;
        const auto stride = static_cast<unsigned>(call_.params.d.row_stride);
        const int piece = lane_ % lanes_of_row;
        const std::uint32_t to = slot_address(slot);
        const std::uint32_t ninths = ninths_address(slot);
        const int in_step = lane_ / lanes_of_row;
#pragma unroll 1
        for (int first = first_row(); first - in_step < count; first += MovesAtOnce * rows_of_step()) {
            std::uint32_t here[MovesAtOnce][4];
            std::uint32_t there[MovesAtOnce][4];
#pragma unroll
            for (int i = 0; i < MovesAtOnce; ++i) {
                // Behind the last row, that once more.
                const int row = last_of_tile(first + i * rows_of_step());
                load_shared(to + piece_offset(row, piece), here[i]);
                load_shared(piece + 1 < pieces_of_slot ? to + piece_offset(row, piece + 1)
                                                       : ninths + static_cast<std::uint32_t>(row * 16),
                            there[i]);
            }
            __syncwarp();
#pragma unroll
            for (int i = 0; i < MovesAtOnce; ++i) {
                const int row = first + i * rows_of_step();
                later_bytes(here[i], there[i],
                            (static_cast<unsigned>(rows) + static_cast<unsigned>(row) * stride) % 16);
            }
#pragma unroll
            for (int i = 0; i < MovesAtOnce; ++i) {
                const int row = first + i * rows_of_step();
                if (row - in_step < count) store_shared(to + piece_offset(row, piece), here[i]);
            }
            __syncwarp();
        }
    }
    __device__ __forceinline__ static int last_of_tile(int row) {
        return row < tile_tokens_of(Type) ? row : tile_tokens_of(Type) - 1;
    }

    /// Of two pieces in a row, the 16 bytes from byte `first` on.
    __device__ __forceinline__ static void later_bytes(std::uint32_t (&here)[4], const std::uint32_t (&there)[4],
                                                       unsigned first) {
        std::uint32_t words[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) words[i] = i < 4 ? here[i] : there[i - 4];
        if ((first & 8) != 0) {
#pragma unroll
            for (int i = 0; i < 6; ++i) words[i] = words[i + 2];
        }
        if ((first & 4) != 0) {
#pragma unroll
            for (int i = 0; i < 5; ++i) words[i] = words[i + 1];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            here[i] = bytes_of(Type) == 4 ? words[i] : __funnelshift_r(words[i], words[i + 1], (first & 2) * 8);
        }
    }

    DocumentRing& ring_;
    const Arguments& call_;
    const Team team_;
    const std::uint32_t ninths_;  ///< of the ring's slots, behind everything else in shared memory
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    RingPlace next_;
    RingPlace oldest_;
    int open_ = 0;
    int rows_of_slot_ = 0;  ///< of the slot whose number is this lane's, as move() takes them
};

}  // namespace rowmax::cuda
