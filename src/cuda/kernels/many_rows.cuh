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
#include "cuda/kernels/moved_tiles.cuh"
#include "cuda/kernels/oct_sums.cuh"
#include "cuda/kernels/products.cuh"
#include "cuda/kernels/query_tile.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/token_scales.cuh"
#include "cuda/prim/shared.cuh"
#include "cuda/prim/wgmma_integers.cuh"

namespace rowmax::cuda {

inline constexpr int many_rows_block = 256;
inline constexpr int many_rows_groups = 4;
inline constexpr int rows_of_warpgroup = many_rows_block / many_rows_groups;
inline constexpr int reading_warps = 4 * many_rows_groups;

/// What is done with a row's maximum.
struct alignas(16) FinishedRow {
    RowPlace place;
    float factor = 1;  ///< it is multiplied by
};

/// Of codes: the scales of the tiles in the ring, and what the block's rows need, for which there are no registers.
template <bool Scaled>
struct ManyRowsScales {};
template <>
struct ManyRowsScales<true> {
    alignas(16) float tiles[most_stages][tile_tokens];
    FinishedRow rows[many_rows_block];
};

template <TokenType Type>
struct ManyRowsControl {
    Warmth warmth;
    MovedRing ring;
    ManyRowsScales<is_scaled(Type)> scales;
    OctSums<many_rows_block> sums;
};

/// Whole tiles fit the ring, and twice, however many dimensions there are: slots are waited for and released together.
template <TokenType Type>
inline constexpr bool holds_whole_tiles = bytes_of(Type) <= 2;

template <TokenType Type, bool Indexed>
class ManyRowsReader {
  public:
    using Control = ManyRowsControl<Type>;

    __device__ __forceinline__ ManyRowsReader(Control& control, std::byte* queries, const Arguments& call)
        : queries_(queries),
          call_(call),
          scales_(shared_address(&control.scales)),
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
            if constexpr (movers<Type> == Movers::all) {
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
        } else {
            if constexpr (may_scale_later) {
                if (!seen_) decide_when_to_scale();
            }
            take_partial(now);
        }
    }

    __device__ __forceinline__ void take_partial(const TileFlags now) {
        if (now.boxes() == 4) {
            take_columns<128, false>(now);
        } else if (now.boxes() == 3) {
            take_columns<96, false>(now);
        } else if (now.boxes() == 2) {
            take_columns<64, false>(now);
        } else {
            take_columns<32, false>(now);
        }
    }

    // A tile that was loaded: all warps that multiply move its rows to where they belong, and those of the next one, if
    // it is there, before they wait for one another: here no register is taken by products.
    __device__ __forceinline__ void put_right() {
        if (usual_ != moved_ahead_bits) move_share(reader_);
        DocumentReader next = reader_;
        next.advance();
        const bool ahead = uniform(next.is_full() ? 1 : 0) != 0;
        usual_ = ahead ? moved_ahead_bits : loaded_bits;
        if (ahead) move_share(next);
        wait(moved(reader_), reader_.phase());
    }
    __device__ __forceinline__ void move_share(const DocumentReader& tile) const {
        move_rows_of_tile<Type>(tile, call_, slots_of_tile_, 4 * group_ + warp_, reading_warps);
    }
    // A slot, by the first warpgroup, behind which the others' turns come.
    __device__ __forceinline__ void put_slot_right() const {
        if (call_.d_by_loads && group_ == 0) move_rows_of_slot<Type>(reader_, call_, warp_, 9);
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
        if (movers<Type> != Movers::all || !call_.d_by_loads) {
            usual_ = group_ < at_work_ && !call_.d_by_loads ? TileFlags::usual : loaded_bits;
        }
        next_group_ = group_ + 1 < at_work_ ? group_ + 1 : 0;
        if (group_ >= at_work_) return;
        const Row row = row_of(call_.params, call_.plan, unit_, row_number(lane_ % 2));
        put_row({place_of(call_, unit_, row), is_scaled(Type) ? scale_of_row(call_, row) : 1});
        sync_threads(1 + group_, 128);
        load_query_rows<Type>(call_, unit_, queries_, call_.plan.rows, rows_of_warpgroup * group_, rows_of_warpgroup,
                              thread, 128);
        fence_async_proxy();
        sync_threads(1 + group_, 128);
    }

    [[nodiscard]] __device__ __forceinline__ int row_number(int r) const {
        return rows_of_warpgroup * group_ + 16 * warp_ + 8 * r + lane_ / 4;
    }
    /// Bit r: row r of this thread is a token that counts, and that not all similarities are NaN of.
    [[nodiscard]] __device__ __forceinline__ std::uint32_t kept_rows() const {
        const FinishedRow row = get_row();
        return ballot(row.place.kept() && row.factor == row.factor) >> (lane_ / 4 * 4);
    }

    // Row lane % 2 of this thread's.
    __device__ __forceinline__ void put_row(const FinishedRow& row) {
        place_ = row.place;
        if constexpr (is_scaled(Type)) {
            const auto code = static_cast<std::uint64_t>(row.place.code);
            const std::uint32_t words[4] = {static_cast<std::uint32_t>(code), static_cast<std::uint32_t>(code >> 32),
                                            __float_as_uint(row.factor), 0};
            if (lane_anew() % 4 < 2) store_shared(address_of_row(), words);
            __syncwarp();
        }
    }
    [[nodiscard]] __device__ __forceinline__ FinishedRow get_row() const {
        if constexpr (!is_scaled(Type)) return {place_, 1};
        std::uint32_t words[4];
        load_shared(address_of_row(), words);
        const std::uint64_t code = std::uint64_t{words[1]} << 32 | words[0];
        return {{static_cast<std::int64_t>(code)}, __uint_as_float(words[2])};
    }
    [[nodiscard]] __device__ __forceinline__ std::uint32_t address_of_row() const {
        constexpr auto rows = static_cast<std::uint32_t>(sizeof(ManyRowsScales<true>::tiles));
        const int lane = lane_anew();  // or the address would be kept in a register
        const int row = rows_of_warpgroup * group_ + 16 * warp_ + 8 * (lane % 2) + lane / 4;
        return scales_ + rows + static_cast<std::uint32_t>(row) * sizeof(FinishedRow);
    }

    // Named barriers 5 to 8: the turns of the warpgroups that are at work on a tile, one after the other, then the
    // first's with the next tile. All see the same tiles, so turns come out even.
    __device__ __forceinline__ void take_turn() {
        sync_threads(5 + group_, 256);
    }
    __device__ __forceinline__ void pass_turn(int to) {
        arrive_threads(5 + to, 256);
    }

    /// For want of a register, found anew where winners of float8 codes are looked for.
    [[nodiscard]] __device__ __forceinline__ int next_group() const {
        if constexpr (Type == TokenType::f8 && Indexed) return group_ + 1 < at_work_ ? group_ + 1 : 0;
        return next_group_;
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
        Products<Columns, SumOf<Type>> products[1];
        take_turn();
        if constexpr (movers<Type> == Movers::first && !Usual) put_slot_right();
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
                if constexpr (movers<Type> == Movers::first && !Usual) put_slot_right();
                multiply_slot<true>(products[0], s);
                wait_multiply_groups<1>();
                reader_.release(before);
            }
        }
        pass_turn(next_group());
        const int last = reader_.slot();
        reader_.advance();
        look_ahead();
        wait_multiply_groups<0>();
        sum_is_complete(products[0].value);
        if constexpr (is_scaled(Type)) {
            fold_codes<Usual>(products[0], tokens, now, last);
        } else {
            reader_.release(last);
            fold<Usual>(products[0], tokens, now);
        }
    }

    // One scale for a whole document can wait for the maximum, as long as it keeps the order; but equal scaled
    // similarities, of which the first token wins, may come of different sums.
    static constexpr bool may_scale_later = is_scaled(Type) && !Indexed;

    // At the unit's first tile with tokens.
    __device__ __forceinline__ void decide_when_to_scale() {
        scale_ = __uint_as_float(load_shared(scales_of_stage(reader_.slot())));
        const bool keeps_order = scale_ >= 0 && scale_ < __builtin_huge_valf();
        later_ = uniform(call_.d_scales.steps.token == 0 && keeps_order ? 1 : 0) != 0;
        if (later_ && Type == TokenType::i8) best_[0].value = best_[1].value = __int_as_float(least_integer);
    }

    [[nodiscard]] __device__ __forceinline__ std::uint32_t scales_of_stage(int stage) const {
        return scales_ + static_cast<std::uint32_t>(stage * scales_of_stage_bytes);
    }

    template <bool Usual, int Columns>
    __device__ __forceinline__ void fold_codes(Products<Columns, SumOf<Type>>& sums, const TileTokens& tokens,
                                               TileFlags now, int stage) {
        if constexpr (may_scale_later) {
            if (later_) {
                reader_.release(stage);
                fold<Usual>(sums, tokens, now);
                return;
            }
        }
        Products<Columns> products;
        const std::uint32_t scales = scales_of_stage(stage) + 2 * (lane_ % 4) * sizeof(float);
#pragma unroll
        for (int c = 0; c < Columns / 4; c += 2) {
            std::uint32_t two[2];
            load_shared(scales + offset_of(c) * sizeof(float), two);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int column = c + i % 2;
                products.at(i / 2, column) = static_cast<float>(sums.at(i / 2, column)) * __uint_as_float(two[i % 2]);
            }
        }
        reader_.release(stage);
        fold<Usual>(products, tokens, now);
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
    __device__ __forceinline__ void multiply_slot(Products<Columns, SumOf<Type>>& products, int s) {
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

    template <bool Usual, int Columns, class Value>
    __device__ __forceinline__ void fold(Products<Columns, Value>& products, const TileTokens& tokens, TileFlags now) {
        FoldOf<Indexed, Columns, Value> fold(best_, products);
        const int shift = 2 * (lane_ % 4);
        if constexpr (!Usual) {
            if constexpr (Indexed) {
                if (!seen_) best_[0].token = best_[1].token = first_kept(tokens.keep, tokens.base);
            }
            if (!now.whole()) hide(fold, tokens, shift);
        }
        fold.tile(Indexed ? tokens.base + shift : 0);
    }

    template <class TileFold>
    __device__ __forceinline__ static void hide(TileFold& fold, const TileTokens& tokens, int shift) {
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
            if constexpr (may_scale_later && Type == TokenType::i8) {
                if (later_) {
#pragma unroll
                    for (int r = 0; r < 2; ++r) best_[r].value = static_cast<float>(__float_as_int(best_[r].value));
                }
            }
            Maximum<Indexed> best = join_lanes(best_);
            // Not before: lanes without a token hold what must not be multiplied.
            if (may_scale_later && later_) best.value *= scale_;
            const FinishedRow row = get_row();
            if (rows_wanted<Indexed>(call_) && lane_ % 4 < 2)
                write_row(call_, unit_, row.place, best, row.factor, seen_);
            oct = sum_of_oct<4>(row.place.adds(best.value * row.factor, seen_));
        }
        out_.send(unit_, rows_of_warpgroup / rows_of_oct * group_ + 2 * warp_, oct);
        later_ = false;
    }

    static constexpr bool holds_tiles = holds_whole_tiles<Type>;
    __device__ __forceinline__ static int slots_of_stage(const Arguments& call) {
        return holds_tiles ? slots_of_token<Type>(call.params.dim) : 1;
    }

    static constexpr int loaded_bits = -1;
    static constexpr int moved_ahead_bits = -2;

    std::byte* queries_;
    const Arguments& call_;
    const std::uint32_t scales_;  ///< in shared memory
    DocumentReader reader_;
    const int group_ = uniform(static_cast<int>(threadIdx.x / 128));
    const int warp_ = uniform(static_cast<int>(threadIdx.x / 32 % 4));
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    OctSumsSender<many_rows_block> out_;
    Unit unit_{-1, -1, -1};
    int at_work_ = 0;  ///< warpgroups that have rows, or the first two: nobody passes a turn to itself
    RowPlace place_;   ///< of row lane % 2 of this thread's, but for codes
    float scale_ = 1;  ///< of the document, where it waits for the maximum
    bool later_ = false;
    bool seen_ = false;
    const int slots_of_tile_ = slots_of_token<Type>(call_.params.dim);
    TileFlags next_;
    /// Bits of the tiles that take the short way: none where they are loaded, and whether this warp moved the next
    /// one's rows.
    int usual_ = loaded_bits;
    int next_group_ = 0;  ///< whose turn is next
    Maximum<Indexed> best_[2];
};

template <TokenType Type, bool Indexed>
__global__ void __launch_bounds__(tiled_threads(many_rows_groups), 1)
    many_rows(const __grid_constant__ TiledArguments arguments) {
    extern __shared__ std::byte memory[];
    std::byte* slots = aligned_slots(memory);
    using Share = Registers<many_rows_groups, is_scaled(Type)>;
    const Arguments& call = arguments.call;
    std::byte* queries = slots + call.stages * slot_bytes;
    auto& control = *reinterpret_cast<ManyRowsControl<Type>*>(queries + slots_of_token<Type>(call.params.dim) *
                                                                            call.plan.rows * row_bytes);
    warm_up(arguments, control.warmth);
    constexpr int most_loaders = 3;
    const int loaders = filling_warps(call, most_loaders);
    if (lane_anew() == 0) {
        int arrivals = 1;  // of each warp that loads, or of the copy engine's
        if (call.d_by_loads && holds_whole_tiles<Type>) {
            arrivals = slots_of_token<Type>(call.params.dim);
        }
        if (call.d_by_loads) arrivals *= movers<Type> == Movers::loaders ? loaders : arrivals_of_copies;
        if (!call.d_by_loads && is_scaled(Type)) arrivals = 2;
        init_ring(control.ring, slots, reading_warps, arrivals);
        if (movers<Type> == Movers::all && threadIdx.x == 0) init_moved(control.ring, reading_warps);
        if (threadIdx.x == 0) init_oct_sums(control.sums, reading_warps);
        fence_barrier_init();
    }
    __syncthreads();
    wait_for_earlier_kernels();
    const int warp = uniform(static_cast<int>(threadIdx.x / 32));
    if (warp < reading_warps) {
        take_registers<Share::reader>();
        ManyRowsReader<Type, Indexed>(control, queries, call).run();
    } else {
        release_registers<Share::others>();
        // The last two warps help.
        const bool helps = warp > reading_warps + 1;
        if (warp == reading_warps || (helps && loaders > 1)) {
            const Team team{helps ? warp - reading_warps - 1 : 0, most_loaders};
            fill_ring<Type, holds_whole_tiles<Type>, movers<Type> == Movers::loaders ? 2 : 0, false>(
                control.ring, arguments, 0, 1, team, shared_address(&control.scales));
        }
        if constexpr (is_scaled(Type)) {
            if (warp == reading_warps + 2 && !call.d_by_loads) {
                fill_scales<Type>(control.ring, arguments, shared_address(&control.scales));
            }
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
    entry.control_bytes = static_cast<int>(sizeof(ManyRowsControl<Type>));
    entry.threads = tiled_threads(many_rows_groups);
    return entry;
}

}  // namespace rowmax::cuda
