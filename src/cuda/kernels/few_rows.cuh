// Few query rows (up to 128) against documents, at the speed of memory.
//
//   document tile  128 tokens (M, two halves of 64)  x  query rows N  ->  one maximum a column
//
//   Three warpgroups (two when N is 128) work side by side, each on documents of its own, out of a ring of its own:
//   while one waits, folds or adds up, the others keep the memory busy.
//
//   warpgroup g         multiplies its tiles with all query rows, keeps the maxima of its tokens in registers; at the
//   unit's
//                       end its warps leave them in `maxima`, and its first warp joins them, adds up, writes the scores
//   warp 4 Groups + g   fills ring g (document_ring.cuh)
//
//   shared memory: slots of the rings | query tiles (ceil(d / 64) x N x 128 bytes; one for each warpgroup where they
//   work on different queries) | Control
#pragma once

#include "cuda/kernels/document_producer.cuh"
#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/lane_scores.cuh"
#include "cuda/kernels/query_tile.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/scores.cuh"
#include "cuda/kernels/shifted_rows.cuh"
#include "cuda/kernels/token_norms.cuh"
#include "cuda/kernels/token_scales.cuh"
#include "cuda/prim/launch_order.cuh"
#include "cuda/prim/wgmma_integers.cuh"

namespace rowmax::cuda {

/// With more columns registers are short, and the kernel for many rows takes the call.
template <TokenType Type, int Columns>
inline constexpr bool normalizes = Type != TokenType::tf32 && !is_scaled(Type) && Columns <= 64;

/// For want of registers readers move rows that were loaded only while they hold no products, and so all slots of a
/// tile before they multiply it.
template <int Columns, bool Indexed>
inline constexpr bool moves_whole_tiles = Columns >= 128 && Indexed;

/// Whether readers move rows that were loaded to where they belong, or, where tiles may be larger than a ring, the
/// loading warps.
template <TokenType Type, int Columns, bool Indexed>
inline constexpr bool readers_move = bytes_of(Type) <= 2 || !moves_whole_tiles<Columns, Indexed>;

template <TokenType Type, int Columns, bool Indexed>
struct FewRowsControl {
    static constexpr int groups = Columns <= 64 ? 3 : 2;
    static constexpr int buffers = 2;
    Warmth warmth;
    int turns;  ///< units taken by rings
    DocumentRing rings[groups];
    float query_factors[groups][Columns];  ///< one over the norms of query rows, or their scales
    float octs[groups][Columns / rows_of_oct];
    RowPlace places[groups][Columns];  ///< of the query rows; where all groups have the same, the first group's
    Maximum<Indexed> maxima[groups][buffers][4][Columns];
};

/// Which kernels have code of its own for what most calls are: one block of 32 query rows, documents that the copy
/// engine brings, nothing wanted but scores. Instructions that are jumped over are fetched all the same, and with short
/// documents little else decides how long one takes.
template <TokenType Type, int Columns, bool Indexed>
inline constexpr bool has_common_code = Columns == LaneScores::rows && !Indexed && !is_scaled(Type);

__device__ __forceinline__ bool is_common(const Arguments& call) {
    return LaneScores::takes(call) && !call.params.normalize && !call.d_by_loads;
}

/// Common: the call is_common().
template <TokenType Type, int Columns, bool Indexed, bool Common>
class FewRowsReader {
  public:
    using Control = FewRowsControl<Type, Columns, Indexed>;

    __device__ __forceinline__ FewRowsReader(Control& control, std::byte* queries, const Arguments& call, int group)
        : control_(control),
          queries_(queries),
          call_(call),
          group_(group),
          reader_(control.rings[group], call.stages) {}

    __device__ __forceinline__ void run() {
        wait_for_memory();
        if (Common || !call_.own_queries) load_shared_queries();
        if constexpr (Common) scores_.begin(call_, control_.places[0][lane_]);
        for (;;) {
            const Tile& tile = reader_.next();
            const TileFlags flags{uniform(tile.flags.bits)};
            if (flags.stop()) return;
            if (flags.first()) begin_unit(tile);
            if (flags.boxes() == 0) {
                reader_.leave();
            } else {
                begin_tile(tile);
                if (flags.boxes() > 2) {
                    multiply_and_fold<2>();
                } else {
                    multiply_and_fold<1>();
                }
            }
            if (flags.last()) finish();
        }
    }

  private:
    static constexpr int columns_of_thread = Columns / 4;
    static constexpr int passes = (Columns + 31) / 32;
    /// At once by a lane, of rows that were loaded: as many as there are registers for.
    static constexpr int pieces_moved =
        Columns <= 32 ? 4 : (Columns <= 64 ? 4 : 2) / (Indexed && Columns == 64 ? 2 : 1);

    // All warpgroups' readers, once.
    __device__ __forceinline__ void load_shared_queries() {
        constexpr int threads = 128 * Control::groups;
        unit_ = {0, 0, 0};
        const auto thread = static_cast<int>(threadIdx.x);
        load_query_rows<Type>(call_, unit_, queries_, Columns, 0, Columns, thread, threads, control_.places[0]);
        find_query_factors(Control::groups + 1, 0, thread, threads);
        fence_async_proxy();
        sync_threads(Control::groups + 1, threads);
    }

    __device__ __forceinline__ void begin_unit(const Tile& tile) {
        const bool reload = !Common && call_.own_queries && new_queries(call_.params, unit_, tile.unit);
        unit_ = tile.unit;
        seen_ = false;
#pragma unroll
        for (int c = 0; c < columns_of_thread; ++c) best_[c] = {};
        if (reload) load_own_queries();
    }

    __device__ __forceinline__ void load_own_queries() {
        const int thread = static_cast<int>(threadIdx.x % 128);
        sync_threads(1 + group_, 128);
        load_query_rows<Type>(call_, unit_, queries_, Columns, 0, Columns, thread, 128, control_.places[group_]);
        find_query_factors(1 + group_, group_, thread, 128);
        fence_async_proxy();
        sync_threads(1 + group_, 128);
    }

    [[nodiscard]] __device__ __forceinline__ bool normalized() const {
        return !Common && normalizes<Type, Columns> && call_.params.normalize;
    }

    [[nodiscard]] __device__ __forceinline__ bool has_query_factors() const {
        return is_scaled(Type) || normalized();
    }

    // Between the loading of rows, by as many threads, and the barrier behind it.
    __device__ __forceinline__ void find_query_factors(int barrier, int group, int thread, int threads) {
        if constexpr (is_scaled(Type)) {
            if (thread >= Columns) return;
            control_.query_factors[group][thread] =
                scale_of_row(call_, row_of(call_.params, call_.plan, unit_, thread));
        } else if constexpr (normalizes<Type, Columns>) {
            if (!normalized()) return;
            sync_threads(barrier, threads);
            if (thread >= Columns) return;
            control_.query_factors[group][thread] =
                normalize_query_row<Type>(queries_, Columns, thread, call_.params.dim);
        }
    }

    // What the tile's first slot says, before it is given back.
    __device__ __forceinline__ void begin_tile(const Tile& tile) {
        if constexpr (Indexed) {
            if (!seen_) {
                const int token = first_kept(tile.keep, tile.base);
                first_ = token;
#pragma unroll
                for (int c = 0; c < columns_of_thread; ++c) best_[c].token = token;
            }
        }
        seen_ = true;
        base_ = tile.base;
#pragma unroll
        for (int h = 0; h < 2; ++h) keep_[h] = tile.keep[2 * h + warp_ / 2] >> (warp_ % 2 * 16) & 0xffffU;
        if constexpr (is_scaled(Type)) read_scales(tile.first_scale);
    }

    template <int Halves>
    __device__ __forceinline__ void multiply_and_fold() {
        SumOf<Type> sums[Halves][Columns / 2];
        PassingNorm<Type> norm;
        const int slots = slots_of_token<Type>(call_.params.dim);
        put_right(0);
        multiply_slot<false>(sums, 0);
        if (normalized()) add_squares<2>(norm, reader_, reader_.slot(), token_of_lane());
#pragma unroll 1
        for (int s = 1; s < slots; ++s) {
            const int before = reader_.slot();
            reader_.advance();
            reader_.wait_full();
            put_right(s);
            multiply_slot<true>(sums, s);
            if (normalized()) add_squares<2>(norm, reader_, reader_.slot(), token_of_lane());
            wait_multiply_groups<1>();
            reader_.release(before);
        }
        wait_multiply_groups<0>();
        reader_.leave();
        if constexpr (normalizes<Type, Columns>) {
            if (normalized()) scale(sums, norm);
        }
#pragma unroll
        for (int h = 0; h < Halves; ++h) {
            const int token = base_ + 64 * h + 16 * warp_ + lane_ / 4;
            if constexpr (is_scaled(Type)) {
                fold_scaled(sums[h], scales_[h], keep_[h], token);
            } else {
                fold(sums[h], keep_[h], token);
            }
        }
    }

    // Of this thread's two tokens in each half of the tile. Asked for before the tile is multiplied, for which they
    // wait in L2.
    __device__ __forceinline__ void read_scales(std::int64_t first) {
        const core::Scales& scales = call_.d_scales;
        const float* from = scales.data + first + (base_ + 16 * warp_ + lane_ / 4) * scales.steps.token;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const bool kept = (keep_[h] >> (lane_ / 4 + 8 * i) & 1U) != 0;
                scales_[h][i] = kept ? __ldg(from + (64 * h + 8 * i) * scales.steps.token) : 0.0F;
            }
        }
    }

    __device__ __forceinline__ void fold_scaled(const SumOf<Type> (&sums)[Columns / 2], const float (&scales)[2],
                                                std::uint32_t keep, int token) {
        float products[Columns / 2];
#pragma unroll
        for (int i = 0; i < Columns / 2; ++i) products[i] = static_cast<float>(sums[i]) * scales[i / 2 % 2];
        fold(products, keep, token);
    }

    // Slot `s` of a tile, if it was loaded: all warps move its rows to where they belong.
    __device__ __forceinline__ void put_right(int s) const {
        if constexpr (!Common && readers_move<Type, Columns, Indexed>) {
            if (!call_.d_by_loads) [[likely]]
                return;
            if (!moves_whole_tiles<Columns, Indexed>) {
                move_rows(reader_);
            } else if (s == 0) {
                DocumentReader slot = reader_;
                for (int i = slots_of_token<Type>(call_.params.dim);;) {
                    move_rows(slot);
                    if (--i == 0) break;
                    slot.advance();
                    slot.wait_full();
                }
            } else {
                return;
            }
            fence_async_proxy();
            sync_threads(1 + group_, 128);
        }
    }
    __device__ __forceinline__ void move_rows(const DocumentReader& slot) const {
        using Rows = ShiftedRows<Type, pieces_moved>;
        if (!call_.d_shifted) return;
        Rows::move_some(slot.address(),
                        ninths_of_ring<Type>(Control::groups, group_, call_.stages) +
                            static_cast<std::uint32_t>(slot.slot() * ninths_bytes_of(Type)),
                        slot.rows(), call_.params.d.row_stride, Rows::at_once * warp_, 4 * Rows::at_once);
    }

    // Of the 32 tokens whose products a warp holds, 16 in each half of the tile, every lane finds the norm of one,
    // while they are multiplied.
    [[nodiscard]] __device__ __forceinline__ int token_of_lane() const {
        return 64 * (lane_ / 16) + 16 * warp_ + lane_ % 16;
    }

    template <int Halves>
    __device__ __forceinline__ void scale(float (&sums)[Halves][Columns / 2], const PassingNorm<Type>& norm) const {
        const std::uint32_t keep = lane_ < 16 ? keep_[0] : keep_[1];
        const bool kept = (keep >> (lane_ % 16) & 1U) != 0;
        const float squares = norm.sum();
        float inverse = inverse_root(squares);
        if (norm.far(squares) && kept) inverse = inverse_of_far<Type>(call_, unit_, base_ + token_of_lane());
#pragma unroll
        for (int h = 0; h < Halves; ++h) {
            const float a = from_lane(inverse, 16 * h + lane_ / 4);
            const float b = from_lane(inverse, 16 * h + lane_ / 4 + 8);
#pragma unroll
            for (int c = 0; c < columns_of_thread; ++c) {
                sums[h][c / 2 * 4 + c % 2] *= a;
                sums[h][c / 2 * 4 + c % 2 + 2] *= b;
            }
        }
    }

    template <bool Add, int Halves>
    __device__ __forceinline__ void multiply_slot(SumOf<Type> (&sums)[Halves][Columns / 2], int s) {
        const std::uint64_t tokens = operand(reader_.address());
        const std::uint64_t rows = operand(shared_address(queries_) + s * Columns * row_bytes);
        multiply_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
#pragma unroll
            for (int h = 0; h < Halves; ++h) {
                multiply<Type>(sums[h], advance(tokens + h * (64 * row_bytes >> 4), step), advance(rows, step),
                               Add || step > 0);
            }
        }
        close_multiply_group();
    }

    /// `keep`: bits of this warp's 16 tokens. `token`: the first of this thread's two.
    __device__ __forceinline__ void fold(const float (&sums)[Columns / 2], std::uint32_t keep, int token) {
        if (keep == 0xffffU) {
#pragma unroll
            for (int c = 0; c < columns_of_thread; ++c) {
                take_two(best_[c], sums[c / 2 * 4 + c % 2], sums[c / 2 * 4 + c % 2 + 2], token);
            }
            return;
        }
        const bool keeps_a = (keep >> (lane_ / 4) & 1U) != 0;
        const bool keeps_b = (keep >> (lane_ / 4 + 8) & 1U) != 0;
#pragma unroll
        for (int c = 0; c < columns_of_thread; ++c) {
            const float a = keeps_a ? sums[c / 2 * 4 + c % 2] : minus_infinity;
            const float b = keeps_b ? sums[c / 2 * 4 + c % 2 + 2] : minus_infinity;
            take_two(best_[c], a, b, token);
        }
    }

    __device__ __forceinline__ void finish() {
        int first = 0;
        reduce_step<columns_of_thread, 16>(first);
        reduce_step<(columns_of_thread > 1 ? columns_of_thread / 2 : 1), 8>(first);
        reduce_step<(columns_of_thread > 3 ? columns_of_thread / 4 : 1), 4>(first);
        constexpr int left = columns_of_thread > 8 ? columns_of_thread / 8 : 1;
        auto& maxima = control_.maxima[group_][buffer_];
#pragma unroll
        for (int i = 0; i < left; ++i) {
            const int c = first + i;
            maxima[warp_][c / 2 * 8 + 2 * (lane_ % 4) + c % 2] = best_[i];
        }
        // With two buffers this also says that the first warp is done with the unit before.
        sync_threads(1 + group_, 128);
        if (warp_ == 0) {
            if constexpr (Common) {
                scores_.write(unit_.item, joined(maxima, lane_).value, seen_);
            } else {
                write_unit(maxima);
            }
        }
        buffer_ ^= 1;
    }

    // Halves the columns that a thread holds, while there is more than one.
    template <int Count, int Distance>
    __device__ __forceinline__ void reduce_step(int& first) {
        if constexpr (Count > 1) {
            const bool upper = (lane_ & Distance) != 0;
#pragma unroll
            for (int c = 0; c < Count / 2; ++c) {
                const Maximum<Indexed> low = best_[c];
                const Maximum<Indexed> high = best_[c + Count / 2];
                best_[c] = choose(upper, high, low);
                join(best_[c], exchange(choose(upper, low, high), Distance));
            }
            if (upper) first += Count / 2;
        } else {
            join(best_[0], exchange(best_[0], Distance));
        }
    }

    __device__ __forceinline__ static Maximum<Indexed> joined(const Maximum<Indexed> (&maxima)[4][Columns], int row) {
        Maximum<Indexed> best = maxima[0][row];
#pragma unroll
        for (int w = 1; w < 4; ++w) join(best, maxima[w][row]);
        return best;
    }

    __device__ __forceinline__ void write_unit(const Maximum<Indexed> (&maxima)[4][Columns]) {
        float* octs = control_.octs[group_];
        const RowPlace* places = control_.places[call_.own_queries ? group_ : 0];
        const float* factors = control_.query_factors[call_.own_queries ? group_ : 0];
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const int row = lane_ + 32 * i;
            Maximum<Indexed> best = joined(maxima, row);
            const float factor = has_query_factors() ? factors[row] : 1.0F;
            if constexpr (is_scaled(Type) && Indexed) {
                if (seen_ && factor != factor) best = {not_a_number, first_};
            }
            const RowPlace place = places[row];
            if (rows_wanted<Indexed>(call_)) write_row(call_, unit_, place, best, factor, seen_);
            const float sum = sum_of_oct<1>(place.adds(best.value * factor, seen_));
            if (lane_ % rows_of_oct == 0) octs[row / rows_of_oct] = sum;
        }
        __syncwarp();
        write_scores(call_, unit_, octs);
        __syncwarp();
    }

    Control& control_;
    std::byte* queries_;
    const Arguments& call_;
    const int group_;
    DocumentReader reader_;
    const int warp_ = uniform(static_cast<int>(threadIdx.x / 32 % 4));
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    Unit unit_{-1, -1, -1};
    int buffer_ = 0;
    int base_ = 0;
    int first_ = 0;  ///< the unit's first kept token
    bool seen_ = false;
    std::uint32_t keep_[2];
    float scales_[2][2];  ///< of codes
    LaneScores scores_;
    Maximum<Indexed> best_[columns_of_thread];
};

template <TokenType Type, int Columns, bool Indexed>
__global__ void __launch_bounds__(tiled_threads(FewRowsControl<Type, Columns, Indexed>::groups), 1)
    few_rows(const __grid_constant__ TiledArguments arguments) {
    extern __shared__ std::byte memory[];
    using Control = FewRowsControl<Type, Columns, Indexed>;
    using Share = Registers<Control::groups, is_scaled(Type)>;
    const Arguments& call = arguments.call;
    std::byte* slots = aligned_slots(memory);
    std::byte* queries = slots + Control::groups * call.stages * slot_bytes;
    const int query_bytes = slots_of_token<Type>(call.params.dim) * Columns * row_bytes;
    auto& control = *reinterpret_cast<Control*>(queries + (call.own_queries ? Control::groups : 1) * query_bytes);
    warm_up(arguments, control.warmth);
    constexpr int most_loaders = 4 / Control::groups;
    const int loaders = filling_warps(call, most_loaders);
    const int arrivals = call.d_by_loads && readers_move<Type, Columns, Indexed> ? arrivals_of_copies : loaders;
    if (threadIdx.x == 0) control.turns = Control::groups;
    static_assert(!moves_whole_tiles<Columns, Indexed> || !readers_move<Type, Columns, Indexed> ||
                  ring_slots(Type, one_tile_dim_most(Type), Columns * Control::groups, sizeof(Control), Control::groups,
                             227 * 1024, ninths_bytes_of(Type)) >= slots_of_token<Type>(one_tile_dim_most(Type)));
    if (threadIdx.x % 32 == 0) {
#pragma unroll
        for (int g = 0; g < Control::groups; ++g) {
            init_ring(control.rings[g], slots + g * call.stages * slot_bytes, 4, arrivals);
        }
        fence_barrier_init();
    }
    __syncthreads();
    let_later_kernels_begin();
    const int warp = uniform(static_cast<int>(threadIdx.x / 32));
    if (warp < 4 * Control::groups) {
        take_registers<Share::reader>();
        const int group = warp / 4;
        if (call.own_queries) queries += group * query_bytes;
        constexpr bool common = has_common_code<Type, Columns, Indexed>;
        if (common && is_common(call)) {
            FewRowsReader<Type, Columns, Indexed, common>(control, queries, call, group).run();
        } else {
            FewRowsReader<Type, Columns, Indexed, false>(control, queries, call, group).run();
        }
    } else {
        release_registers<Share::others>();
        const int ring = warp - 4 * Control::groups;
        const Team team{ring / Control::groups, most_loaders};
        if (team.member < loaders) {
            fill_ring<Type, false, readers_move<Type, Columns, Indexed> ? 0 : 4, is_scaled(Type), true>(
                control.rings[ring % Control::groups], arguments, ring % Control::groups, Control::groups, team, 0,
                &control.turns);
        }
    }
}

template <TokenType Type, int Rows, bool Indexed>
KernelEntry few_rows_entry() {
    using Control = FewRowsControl<Type, Rows, Indexed>;
    KernelEntry entry(Type);
    entry.function = reinterpret_cast<const void*>(&few_rows<Type, Rows, Indexed>);
    entry.rows = entry.least_rows = Rows;
    entry.indexed = Indexed;
    entry.normalize = normalizes<Type, Rows> ? NormalizeUse::either : NormalizeUse::never;
    entry.control_bytes = static_cast<int>(sizeof(Control));
    entry.rings = Control::groups;
    entry.threads = tiled_threads(Control::groups);
    return entry;
}

}  // namespace rowmax::cuda
