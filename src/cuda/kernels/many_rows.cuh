// Many query rows against documents, at the speed of the tensor cores.
//
//   query rows 128 to 256 (M, tiles of 64)  x  document tile 128 tokens (N)  ->  one maximum a row
//
//   warps 0..3, .. 12..15   warpgroups, a row tile each. One multiplies a document tile while the others fold theirs
//   into
//                           the rows' maxima, in registers, and write what finished documents leave. They take turns.
//   warp 16                 fills the ring of document tiles (document_ring.cuh)
//   warp 17                 adds up sums of rows to scores (oct_sums.cuh)
//
//   shared memory: ring slots | query tiles (ceil(d / 64) x rows x 128 bytes) | Control
//
// A document's last tile is multiplied with as many columns (32, 64, 96, 128) as its boxes hold.
#pragma once

#include "cuda/kernels/document_producer.cuh"
#include "cuda/kernels/integer_fold.cuh"
#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/oct_sums.cuh"
#include "cuda/kernels/products.cuh"
#include "cuda/kernels/query_tile.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/shifted_rows.cuh"
#include "cuda/prim/wgmma.cuh"

namespace rowmax::cuda {

inline constexpr int many_rows_block = 256;
inline constexpr int many_rows_groups = 4;
inline constexpr int rows_of_warpgroup = many_rows_block / many_rows_groups;
inline constexpr int reading_warps = 4 * many_rows_groups;

struct ManyRowsControl {
    Warmth warmth;
    DocumentRing ring;
    OctSums<many_rows_block> sums;
};

/// Whole tiles fit the ring, and twice, however many dimensions there are: slots are waited for and released together.
template <TokenType Type>
inline constexpr bool holds_whole_tiles = bytes_of(Type) == 2;

template <TokenType Type, bool Indexed>
class ManyRowsReader {
  public:
    __device__ __forceinline__ ManyRowsReader(ManyRowsControl& control, std::byte* queries, const Arguments& call)
        : queries_(queries),
          call_(call),
          reader_(control.ring, call.stages, slots_of_stage(call)),
          out_(control.sums) {}

    // While a tile is multiplied, the next one is waited for: only what depends on the products lies between two of a
    // warpgroup's multiplications. Most tiles of long documents are of one kind, found by one comparison: each branch
    // takes as long as twenty additions.
    __device__ __forceinline__ void run() {
        if (group_ == 1) pass_turn(0);
        look_ahead();
        while (!next_.stop()) take_tile(next_);
        if (group_ == 0) take_turn();
        out_.stop();
    }

  private:
    __device__ __forceinline__ void look_ahead() { next_.bits = uniform(reader_.next().flags.bits); }

    __device__ __forceinline__ void take_tile(const TileFlags now) {
        if (now.bits == usual_) {
            take_columns<128, true>(now);
        } else {
            if constexpr (holds_tiles) {
                if (call_.d_by_loads) [[unlikely]]
                    put_right();
            }
            if (now.first()) begin_unit(reader_.tile().unit);
            take_any(now);
        }
        seen_ = seen_ || now.boxes() > 0;
        if (now.last()) finish();
    }

    __device__ __forceinline__ void take_any(const TileFlags now) {
        if (now.boxes() == 0) {
            reader_.leave();
            look_ahead();
        } else if (group_ >= at_work_) {
            leave_tile();
        } else if (now.boxes() == 4) {
            take_columns<128, false>(now);
        } else if (now.boxes() == 3) {
            take_columns<96, false>(now);
        } else if (now.boxes() == 2) {
            take_columns<64, false>(now);
        } else {
            take_columns<32, false>(now);
        }
    }

    // A tile that was loaded: all warps that multiply move its rows to where they belong, 16 rows of a slot at a time.
    __device__ __forceinline__ void put_right() {
        using Rows = ShiftedRows<Type, 4>;
        constexpr int of_slot = tile_tokens / Rows::at_once;
        const int stage = reader_.slot();
        const int rows = reader_.rows();
        const std::uint32_t ninths = ninths_of_ring<Type>(1, 0, call_.stages);
#pragma unroll 1
        for (int i = 4 * group_ + warp_; call_.d_shifted && i < of_slot * slots_of_tile_; i += reading_warps) {
            const int slot = i / of_slot;
            const int first = i % of_slot * Rows::at_once;
            if (first >= rows / 16) continue;
            Rows::move(reader_.address() + slot * slot_bytes,
                       ninths + (stage * slots_of_tile_ + slot) * ninths_bytes_of(Type), first,
                       static_cast<unsigned>(rows), static_cast<unsigned>(call_.params.d.row_stride));
        }
        fence_async_proxy();
        sync_threads(9, 128 * many_rows_groups);
    }

    __device__ __forceinline__ void begin_unit(const Unit& unit) {
        const bool reload = new_queries(call_.params, unit_, unit);
        unit_ = unit;
        seen_ = false;
        if (reload) [[unlikely]]
            load_queries();
        const std::uint32_t kept = kept_rows();
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            best_[r] = {};
            if ((kept >> r & 1U) == 0) best_[r].value = largest_nan();
        }
    }

    // This warpgroup's rows only: the others go on with theirs.
    __device__ __forceinline__ void load_queries() {
        const int thread = static_cast<int>(threadIdx.x % 128);
        const int used = rows_used(call_.params, call_.plan, unit_);
        at_work_ = uniform(max(2, (used + rows_of_warpgroup - 1) / rows_of_warpgroup));
        usual_ = group_ < at_work_ && !call_.d_by_loads ? TileFlags::usual : -1;
        next_group_ = group_ + 1 < at_work_ ? group_ + 1 : 0;
        if (group_ >= at_work_) return;
        place_ = place_of(call_, unit_, row_of(call_.params, call_.plan, unit_, row_number(lane_ % 2)));
        sync_threads(1 + group_, 128);
        load_query_rows<Type>(call_, unit_, queries_, call_.plan.rows, rows_of_warpgroup * group_, rows_of_warpgroup,
                              thread, 128);
        fence_async_proxy();
        sync_threads(1 + group_, 128);
    }

    [[nodiscard]] __device__ __forceinline__ int row_number(int r) const {
        return rows_of_warpgroup * group_ + 16 * warp_ + 8 * r + lane_ / 4;
    }
    /// Bit r: row r of this thread is a token that counts.
    [[nodiscard]] __device__ __forceinline__ std::uint32_t kept_rows() const {
        return ballot(place_.kept()) >> (lane_ / 4 * 4);
    }

    // Named barriers 5 to 8: the turns of the warpgroups that are at work on a tile, one after the other, then the
    // first's with the next tile. All see the same tiles, so turns come out even.
    __device__ __forceinline__ void take_turn() {
        sync_threads(5 + group_, 256);
    }
    __device__ __forceinline__ void pass_turn(int to) {
        arrive_threads(5 + to, 256);
    }

    __device__ __forceinline__ void leave_tile() {
        reader_.leave();
#pragma unroll 1
        for (int s = 1; !holds_tiles && s < slots_of_tile_; ++s) {
            reader_.wait_full();
            reader_.leave();
        }
        look_ahead();
    }

    // Usual: see TileFlags.
    template <int Columns, bool Usual>
    __device__ __forceinline__ void take_columns(const TileFlags now) {
        Products<Columns> products[1];
        take_turn();
        multiply_slot<false>(products[0], 0);
        TileTokens tokens;
        read_tokens<Usual>(tokens);
#pragma unroll 1
        for (int s = 1; s < slots_of_tile_; ++s) {
            if constexpr (holds_tiles) {
                multiply_slot<true>(products[0], s);
            } else {
                const int before = reader_.slot();
                reader_.advance();
                reader_.wait_full();
                multiply_slot<true>(products[0], s);
                wait_multiply_groups<1>();
                reader_.release(before);
            }
        }
        pass_turn(next_group_);
        const int last = reader_.slot();
        reader_.advance();
        look_ahead();
        wait_multiply_groups<0>();
        sum_is_complete(products[0].value);
        reader_.release(last);
        fold<Usual>(products[0], tokens, now);
    }

    // Before the slot that says so is released.
    template <bool Usual>
    __device__ __forceinline__ void read_tokens(TileTokens& tokens) const {
        if constexpr (!Usual) {
#pragma unroll
            for (int b = 0; b < boxes_of_tile; ++b) tokens.keep[b] = reader_.tile().keep[b];
        }
        if constexpr (Indexed) tokens.base = reader_.tile().base;
    }

    template <bool Add, int Columns>
    __device__ __forceinline__ void multiply_slot(Products<Columns>& products, int s) {
        const std::uint64_t tokens = operand(reader_.address() + (holds_tiles ? s * slot_bytes : 0));
        const std::uint64_t rows =
            operand(shared_address(queries_) + (s * call_.plan.rows + rows_of_warpgroup * group_) * row_bytes);
        multiply_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            multiply<Type>(products.value, advance(rows, step), advance(tokens, step), Add || step > 0);
        }
        close_multiply_group();
    }

    template <bool Usual, int Columns>
    __device__ __forceinline__ void fold(Products<Columns>& products, const TileTokens& tokens, TileFlags now) {
        IntegerFold<Indexed, Columns> fold(best_, products);
        const int shift = 2 * (lane_ % 4);
        if constexpr (!Usual) {
            if constexpr (Indexed) {
                if (!seen_) best_[0].token = best_[1].token = first_kept(tokens.keep, tokens.base);
            }
            if (!now.whole()) hide(fold, tokens, shift);
        }
        fold.tile(Indexed ? tokens.base + shift : 0);
    }

    template <int Columns>
    __device__ __forceinline__ static void hide(IntegerFold<Indexed, Columns>& fold, const TileTokens& tokens,
                                                int shift) {
        std::uint32_t keep[boxes_of_tile];
        std::uint32_t full = 0;
#pragma unroll
        for (int b = 0; b < boxes_of_tile; ++b) {
            keep[b] = tokens.keep[b] >> shift;
            if (tokens.keep[b] == all_lanes) full |= 1U << b;
        }
        fold.hide(keep, full);
    }

    // Of the four lanes that share two rows, the first and the third go on with one, the others with the other.
    __device__ __forceinline__ void finish() {
        float oct = 0;
        if (group_ < at_work_) {
            const Maximum<Indexed> best = join_lanes(best_);
            if (rows_wanted<Indexed>(call_) && lane_ % 4 < 2) write_row(call_, unit_, place_, best, 1.0F, seen_);
            oct = sum_of_oct<4>(place_.adds(best.value, seen_));
        }
        out_.send(unit_, rows_of_warpgroup / rows_of_oct * group_ + 2 * warp_, oct);
    }

    static constexpr bool holds_tiles = holds_whole_tiles<Type>;
    __device__ __forceinline__ static int slots_of_stage(const Arguments& call) {
        return holds_tiles ? slots_of_token<Type>(call.params.dim) : 1;
    }

    std::byte* queries_;
    const Arguments& call_;
    DocumentReader reader_;
    const int group_ = uniform(static_cast<int>(threadIdx.x / 128));
    const int warp_ = uniform(static_cast<int>(threadIdx.x / 32 % 4));
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    OctSumsSender<many_rows_block> out_;
    Unit unit_{-1, -1, -1};
    int at_work_ = 0;  ///< warpgroups that have rows, or the first two: nobody passes a turn to itself
    RowPlace place_;   ///< of row lane % 2 of this thread's
    bool seen_ = false;
    const int slots_of_tile_ = slots_of_token<Type>(call_.params.dim);
    TileFlags next_;
    int usual_ = -1;      ///< bits of the tiles that take the short way
    int next_group_ = 0;  ///< whose turn is next
    Maximum<Indexed> best_[2];
};

template <TokenType Type, bool Indexed>
__global__ void __launch_bounds__(tiled_threads(many_rows_groups), 1)
    many_rows(const __grid_constant__ TiledArguments arguments) {
    extern __shared__ std::byte memory[];
    std::byte* slots = aligned_slots(memory);
    const Arguments& call = arguments.call;
    std::byte* queries = slots + call.stages * slot_bytes;
    auto& control = *reinterpret_cast<ManyRowsControl*>(queries + slots_of_token<Type>(call.params.dim) *
                                                                      call.plan.rows * row_bytes);
    warm_up(arguments, control.warmth);
    constexpr int most_loaders = 3;
    const int loaders = filling_warps(call, most_loaders);
    if (lane_anew() == 0) {
        const bool loaded = holds_whole_tiles<Type> && call.d_by_loads;
        const int arrivals = loaded ? arrivals_of_copies * slots_of_token<Type>(call.params.dim) : 1;
        init_ring(control.ring, slots, reading_warps, loaders * arrivals);
        if (threadIdx.x == 0) init_oct_sums(control.sums, reading_warps);
        fence_barrier_init();
    }
    __syncthreads();
    wait_for_earlier_kernels();
    const int warp = uniform(static_cast<int>(threadIdx.x / 32));
    if (warp < reading_warps) {
        take_registers<Registers<many_rows_groups>::reader>();
        ManyRowsReader<Type, Indexed>(control, queries, call).run();
    } else {
        release_registers<Registers<many_rows_groups>::others>();
        // The last two warps help.
        const bool helps = warp > reading_warps + 1;
        if (warp == reading_warps || (helps && loaders > 1)) {
            fill_ring<Type, holds_whole_tiles<Type>, holds_whole_tiles<Type> ? 0 : 2>(
                control.ring, arguments, 0, 1, {helps ? warp - reading_warps - 1 : 0, most_loaders});
        }
        if (warp == reading_warps + 1) write_scores_of_octs(control.sums, call);
    }
}

template <TokenType Type, bool Indexed>
KernelEntry many_rows_entry() {
    KernelEntry entry(Type);
    entry.function = reinterpret_cast<const void*>(&many_rows<Type, Indexed>);
    entry.rows = entry.least_rows = many_rows_block;
    entry.row_step = rows_of_warpgroup;
    entry.indexed = Indexed;
    entry.normalize = NormalizeUse::never;
    entry.control_bytes = static_cast<int>(sizeof(ManyRowsControl));
    entry.threads = tiled_threads(many_rows_groups);
    return entry;
}

}  // namespace rowmax::cuda
