// Document tiles that the copy engine cannot read: strides that are no multiples of 16 bytes, tokens that overlap or
// descend, arrays beyond its numbers. The producing warp copies them itself, in the layout that the copy engine would
// give them. Where other warps have nothing to do, they help: a slot is full when each has arrived.
//
// Tokens are copied by the aligned pieces of 16 bytes that they lie in, past L1, which would hold too little of what is
// under way, and so arrive up to 15 bytes too early (shifted_rows.cuh). They are moved by the warps that read them, and
// those that copy take slots in turn; or, a few slots later, until when a slot is *open*, by the warps that copy. A
// warp's share are then every so-manieth 16 rows, which it both copies and moves.
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/shifted_rows.cuh"
#include "cuda/kernels/token_scales.cuh"
#include "cuda/prim/copy_arrival.cuh"
#include "cuda/prim/copy_async.cuh"
#include "cuda/prim/shared.cuh"
#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

/// PiecesOfLane: see ShiftedRows; 0: the readers move rows, which they find described in the ring.
template <TokenType Type, bool WholeTiles, int PiecesOfLane>
class DocumentLoads {
  public:
    /// A document's first token.
    using Place = const std::byte*;
    /// So much that function calls would have to put it aside.
    static constexpr bool keeps_much = true;

    __device__ __forceinline__ DocumentLoads(DocumentRing& ring, const TiledArguments& arguments, int number, int rings,
                                             const Team& team, std::uint32_t scales)
        : ring_(ring),
          call_(arguments.call),
          team_(team),
          scales_(scales),
          ninths_(ninths_of_ring<Type>(rings, number, arguments.call.stages)) {}

    __device__ __forceinline__ static Place plain_place(const core::Segments& d, int item) {
        return d.data + item * d.stride_outer;
    }
    __device__ __forceinline__ static Place place_of(const core::Segments&, std::int64_t,
                                                     const core::Segment& document) {
        return document.data;
    }

    /// `tile` of a document that ends `left` tokens behind the tile's first.
    __device__ __forceinline__ void send(const Tile& tile, Place document, int left, std::int64_t first_scale) {
        const int boxes = tile.flags.boxes();
        const int slots = boxes == 0 && !WholeTiles ? 1 : slots_of_tile();
        const std::byte* first = document + tile.base * call_.params.d.row_stride;
        const int count = boxes * box_tokens < left ? boxes * box_tokens : left;
        const int rows = count * 16 + offset_in_piece(first);
        for (int s = 0; s < slots; ++s) {
            if (takes_next()) {
                make_room(!WholeTiles || s == 0 || readers_move);
                if (s == 0) begin_tile(tile, first_scale, count);
                copy(first + s * row_bytes, count, token_bytes() - s * row_bytes);
                if constexpr (readers_move) {
                    hand_over(rows);
                } else {
                    keep_open(rows);
                }
            }
            next_.advance(slots_in_use());
        }
    }

    __device__ __forceinline__ void send_end(const Tile& end) {
        if constexpr (!readers_move) {
            while (open_ > 0) close_oldest();
        }
        if (!takes_next()) return;
        while (!next_is_empty()) {
        }
        if ((readers_move || team_.member == 0) && lane_ == 0) ring_.tiles[stage_of(next_.slot)] = end;
        for (int s = 0; s < (WholeTiles ? slots_of_tile() : 1); ++s) {
            if constexpr (readers_move) {
                hand_over(0);
            } else {
                if (lane_ == 0) arrive(&ring_.full[stage_of(next_.slot)]);
            }
        }
    }

  private:
    static constexpr bool readers_move = PiecesOfLane == 0;
    static constexpr int open_slots = 3;
    static constexpr int rows_of_step = 16;

    // Registers are short: what is found anew in a moment is not kept.
    [[nodiscard]] __device__ __forceinline__ int token_bytes() const {
        return static_cast<int>(call_.params.dim) * bytes_of(Type);
    }
    [[nodiscard]] __device__ __forceinline__ int slots_of_tile() const {
        return (token_bytes() + row_bytes - 1) / row_bytes;
    }
    [[nodiscard]] __device__ __forceinline__ int stage_of(int slot) const {
        return WholeTiles ? slot / slots_of_tile() : slot;
    }
    [[nodiscard]] __device__ __forceinline__ int slots_in_use() const {
        return WholeTiles ? call_.stages / slots_of_tile() * slots_of_tile() : call_.stages;
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
    __device__ __forceinline__ static int offset_in_piece(const std::byte* address) {
        return static_cast<int>(reinterpret_cast<std::uintptr_t>(address) % 16);
    }

    __device__ __forceinline__ bool next_is_empty() {
        const bool empty = uniform(passed(&ring_.empty[stage_of(next_.slot)], next_.phase ^ 1U) ? 1 : 0) != 0;
        __syncwarp();
        return empty;
    }

    /// Whether the slot that comes next is this warp's, where readers move rows: each warp has slots of its own, so
    /// that what has to be found for a slot is found once.
    [[nodiscard]] __device__ __forceinline__ bool takes_next() const {
        if constexpr (!readers_move) return true;
        const unsigned of_first = team_.members == 1 ? 0xfffU : (team_.members == 2 ? 0x555U : 0x249U);
        static_assert(most_stages == 12);
        return (of_first << team_.member >> next_.slot & 1U) != 0;
    }

    __device__ __forceinline__ void begin_tile(const Tile& tile, std::int64_t first_scale, int count) {
        if (!readers_move && team_.member != 0) return;
        const int stage = stage_of(next_.slot);
        if (lane_ == 0) ring_.tiles[stage] = tile;
        if constexpr (is_scaled(Type)) {
            if (scales_ != 0) copy_scales(scales_ + stage * scales_of_stage_bytes, call_.d_scales, first_scale, count);
        }
    }

    // A slot is full when the copies of all lanes are there: 33 arrivals.
    __device__ __forceinline__ void hand_over(int rows) {
        const int stage = stage_of(next_.slot);
        if (lane_ == 0) {
            ring_.rows[stage] = rows;
            arrive(&ring_.full[stage]);
        }
        arrive_behind_copies(&ring_.full[stage]);
    }

    __device__ __forceinline__ void keep_open(int rows) {
        close_copy_group();
        if (lane_ == next_.slot) rows_of_slot_ = rows;
        ++open_;
    }

    // Readers may wait for what is open before they leave a slot.
    __device__ __forceinline__ void make_room(bool new_stage) {
        while (open_ > most_open() || (new_stage && !next_is_empty())) {
            if constexpr (!readers_move) {
                if (open_ > 0) close_oldest();
            }
        }
    }

    /// Hands the slot over that has been open for the longest time.
    __device__ __forceinline__ void close_oldest() {
        const int slot = next_.slot < open_ ? next_.slot - open_ + slots_in_use() : next_.slot - open_;
        --open_;
        wait_for_copies(open_);
        if (call_.d_shifted) {
            __syncwarp();
            move(slot, from_lane(rows_of_slot_, slot));
        }
        fence_async_proxy();
        __syncwarp();
        if (lane_ == 0) arrive(&ring_.full[stage_of(slot)]);
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

    /// Of the piece in which `from` lies, what is the token's that ends `left` bytes behind `from`.
    __device__ __forceinline__ static int bytes_of_piece(const std::byte* from, int left) {
        const int bytes = left + offset_in_piece(from);
        return bytes < 0 ? 0 : (bytes < 16 ? bytes : 16);
    }
    /// The piece in which `from` lies. Whole: all of it; else so many bytes, zeros behind them.
    template <bool Whole>
    __device__ __forceinline__ static void copy_piece(std::uint32_t to, const std::byte* from, int bytes) {
        const auto* piece =
            reinterpret_cast<const std::byte*>(reinterpret_cast<std::uintptr_t>(from) & ~std::uintptr_t{15});
        if constexpr (Whole) {
            copy_16_bytes(to, piece);
        } else {
            copy_up_to_16_bytes(to, piece, bytes);
        }
    }

    /// Up to 128 bytes of `count` tokens, whose numbers end `bytes` behind `first`; zeros there.
    __device__ __forceinline__ void copy(const std::byte* first, int count, int bytes) const {
        if (bytes >= row_bytes) {
            copy_rows<true>(first, count, bytes);
        } else {
            copy_rows<false>(first, count, bytes);
        }
        if (call_.d_shifted) copy_ninths(first, count, bytes - row_bytes);
    }

    // Eight lanes a row, 16 rows at a time. An instruction that copies reads its address late, and copies one after the
    // other out of the same registers would wait for that: each has an address of its own. 16 rows further a row starts
    // in the same byte of a piece.
    template <bool Whole>
    __device__ __forceinline__ void copy_rows(const std::byte* first, int count, int bytes) const {
        const int lane = lane_anew();
        const int piece = lane % pieces_of_slot;
        const int row = lane / pieces_of_slot;
        const std::int64_t four = 4 * call_.params.d.row_stride;
        first += piece * 16;
        int sizes[4] = {};
        if constexpr (!Whole) {
            const std::byte* from = row_from(first, row);
#pragma unroll
            for (int i = 0; i < 4; ++i, from += four) sizes[i] = bytes_of_piece(from, bytes - piece * 16);
        }
        // Four rows further a piece lies in the other half of the row: see piece_offset.
        const std::uint32_t to = slot_address(next_.slot) + piece_offset(row, piece);
        const int step = readers_move ? rows_of_step : team_.members * rows_of_step;
        count -= row;
        int begin = readers_move ? 0 : team_.member * rows_of_step;
        const std::byte* from = row_from(first, begin + row);
#pragma unroll 1
        for (; begin < count; begin += step, from += step / 4 * four) {
            const std::uint32_t there = to + static_cast<std::uint32_t>(begin * row_bytes);
            const std::uint32_t half = there ^ 64U;
            if (begin + 12 < count) {
                copy_piece<Whole>(there, from, sizes[0]);
                copy_piece<Whole>(half + 4 * row_bytes, from + four, sizes[1]);
                copy_piece<Whole>(there + 8 * row_bytes, from + 2 * four, sizes[2]);
                copy_piece<Whole>(half + 12 * row_bytes, from + 3 * four, sizes[3]);
                continue;
            }
            copy_piece<Whole>(there, from, sizes[0]);
            if (begin + 4 < count) copy_piece<Whole>(half + 4 * row_bytes, from + four, sizes[1]);
            if (begin + 8 < count) copy_piece<Whole>(there + 8 * row_bytes, from + 2 * four, sizes[2]);
        }
    }

    // What rows have in the ninth piece, a row a lane. Loading warps move only rows that they copied.
    __device__ __forceinline__ void copy_ninths(const std::byte* first, int count, int left) const {
        constexpr int at_once = readers_move ? 32 : rows_of_step;
        const int lane = lane_anew();
        if (lane >= at_once) return;
        const int step = readers_move ? at_once : team_.members * at_once;
        int row = lane + (readers_move ? 0 : team_.member * at_once);
        const int size = bytes_of_piece(row_from(first + row_bytes, lane), left);
#pragma unroll 1
        for (; row < count; row += step) {
            copy_piece<false>(ninths_address(next_.slot) + static_cast<std::uint32_t>(row * 16),
                              row_from(first + row_bytes, row), size);
        }
    }

    /// The address `row` rows behind one.
    [[nodiscard]] __device__ __forceinline__ const std::byte* row_from(const std::byte* address, int row) const {
        return address + row * call_.params.d.row_stride;
    }

    /// Moves what was copied too early. `rows`: how many there are, and where in
    /// its piece the first one starts.
    __device__ __forceinline__ void move(int slot, int rows) const {
        using Rows = ShiftedRows<Type, PiecesOfLane>;
#pragma unroll 1
        for (int step = team_.member * rows_of_step; step < rows / 16; step += team_.members * rows_of_step) {
#pragma unroll 1
            for (int row = 0; row < rows_of_step; row += Rows::at_once) {
                Rows::move(slot_address(slot), ninths_address(slot), rows, call_.params.d.row_stride, step + row);
            }
        }
    }

    DocumentRing& ring_;
    const Arguments& call_;
    const Team team_;
    const std::uint32_t scales_;  ///< of the ring's slots, in shared memory; 0: nobody reads them there
    const std::uint32_t ninths_;  ///< of the ring's slots, behind everything else in shared memory
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    RingPlace next_;
    int open_ = 0;
    int rows_of_slot_ = 0;  ///< of the slot whose number is this lane's, as move() takes them
};

}  // namespace rowmax::cuda
