// Many query rows against documents, at the speed of the tensor cores.
//
//   query rows 256 (M, four tiles of 64)  x  document tile 128 tokens (N)  ->  one maximum a row
//
//   warps 0..3, 4..7   two warpgroups: the first takes row tiles 0 and 2, the second 1 and 3. Each multiplies a
//   document
//                      tile, then folds it into the rows' maxima in registers, while the other multiplies.
//   warp 8             fills the ring of document tiles (document_ring.cuh)
//   warp 9             adds up the maxima that the warpgroups leave in `rows`, writes scores and winners
//
//   ring.full, ring.empty   warp 8 <-> warpgroups          rows_full, rows_empty   warpgroups <-> warp 9
//
//   shared memory: ring slots | query tiles (ceil(d / 64) x 256 x 128 bytes) | Control
//
// A document's last tile is multiplied with as many columns (32, 64, 96, 128) as its boxes hold.
#pragma once

#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/products.cuh"
#include "cuda/kernels/query_tile.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/scores.cuh"
#include "cuda/prim/wgmma.cuh"

namespace rowmax::cuda {

inline constexpr int many_rows_block = 256;
inline constexpr int many_rows_groups = 2;
inline constexpr int reading_warps = 4 * many_rows_groups;

/// What goes with the maxima of a unit.
struct UnitNote {
    Unit unit;
    std::int32_t seen;  ///< some token was kept
    std::int32_t stop;
};

template <bool Indexed>
struct ManyRowsControl {
    static constexpr int buffers = 4;
    DocumentRing ring;
    Barrier rows_full[buffers];
    Barrier rows_empty[buffers];
    UnitNote notes[buffers];
    float octs[many_rows_block / rows_of_oct];
    Maximum<Indexed> rows[buffers][many_rows_block];
};

template <TokenType Type, bool Indexed>
class ManyRowsReader {
  public:
    using Control = ManyRowsControl<Indexed>;

    __device__ __forceinline__ ManyRowsReader(Control& control, std::byte* queries, const Arguments& call)
        : control_(control), queries_(queries), call_(call), reader_(control.ring, call.stages) {}

    // While a tile is multiplied, the next one's head is read: only what depends on the products lies between two of a
    // warpgroup's multiplications.
    __device__ __forceinline__ void run() {
        if (group_ == 1) pass_turn();
        read_head();
        while (!head_.flags.stop()) {
            const Head now = head_;
            if (now.flags.first()) begin_unit(now);
            if (now.flags.boxes() == 0) {
                reader_.release(reader_.slot());
                reader_.advance();
                read_head();
            } else if (row_tiles_ == 2) {
                take_tile<2>(now);
            } else {
                take_tile<1>(now);
            }
            if (now.flags.last()) finish();
        }
        if (group_ == 0) take_turn();
        hand_over(1);
    }

  private:
    /// What the readers need to know of a tile, in registers.
    struct Head {
        TileFlags flags;
        std::uint32_t keep[boxes_of_tile];
        int base;
        Unit unit;
    };

    __device__ __forceinline__ void read_head() {
        const Tile& tile = reader_.next();
        head_.flags.bits = uniform(tile.flags.bits);
#pragma unroll
        for (int b = 0; b < boxes_of_tile; ++b) head_.keep[b] = tile.keep[b];
        head_.base = tile.base;
        head_.unit = tile.unit;
    }

    __device__ __forceinline__ void begin_unit(const Head& now) {
        const bool reload = new_queries(call_.params, unit_, now.unit);
        unit_ = now.unit;
        seen_ = false;
#pragma unroll
        for (int i = 0; i < 4; ++i) best_[i / 2][i % 2] = {};
        if (reload) load_queries();
    }

    // This warpgroup's rows only: the other one goes on with its own.
    __device__ __forceinline__ void load_queries() {
        const int thread = static_cast<int>(threadIdx.x % 128);
        const int used = rows_used(call_.params, call_.plan, unit_);
        row_tiles_ = uniform(used > 64 * (group_ + 2) ? 2 : 1);
        sync_threads(1 + group_, 128);
        for (int i = 0; i < row_tiles_; ++i) {
            load_query_rows(call_, unit_, queries_, many_rows_block, 64 * (group_ + 2 * i), 64, thread, 128);
        }
        fence_async_proxy();
        sync_threads(1 + group_, 128);
    }

    [[nodiscard]] __device__ __forceinline__ int row_number(int row_tile, int r) const {
        return 64 * (group_ + 2 * row_tile) + 16 * warp_ + 8 * r + lane_ / 4;
    }

    // Named barriers 3 and 4: the turn of either warpgroup. Both see the same tiles, so turns come out even.
    __device__ __forceinline__ void take_turn() {
        sync_threads(3 + group_, 256);
    }
    __device__ __forceinline__ void pass_turn() {
        arrive_threads(4 - group_, 256);
    }

    template <int RowTiles>
    __device__ __forceinline__ void take_tile(const Head& now) {
        switch (now.flags.boxes()) {
            case 1: return take_columns<RowTiles, 32>(now);
            case 2: return take_columns<RowTiles, 64>(now);
            case 3: return take_columns<RowTiles, 96>(now);
            default: return take_columns<RowTiles, 128>(now);
        }
    }

    template <int RowTiles, int Columns>
    __device__ __forceinline__ void take_columns(const Head& now) {
        Products<Columns> products[RowTiles];
        take_turn();
        multiply_slot<false>(products, 0);
#pragma unroll 1
        for (int s = 1; s < slots_of_tile_; ++s) {
            const int before = reader_.slot();
            reader_.advance();
            reader_.wait_full();
            multiply_slot<true>(products, s);
            wait_multiply_groups<1>();
            reader_.release(before);
        }
        pass_turn();
        const int last = reader_.slot();
        reader_.advance();
        read_head();
        wait_multiply_groups<0>();
        reader_.release(last);
        fold(products, now);
    }

    template <bool Add, int RowTiles, int Columns>
    __device__ __forceinline__ void multiply_slot(Products<Columns> (&products)[RowTiles], int s) {
        const std::uint64_t tokens = operand(reader_.data());
        const std::uint64_t rows = operand(queries_ + (s * many_rows_block + 64 * group_) * row_bytes);
        multiply_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
#pragma unroll
            for (int i = 0; i < RowTiles; ++i) {
                multiply<Type>(products[i].value, advance(rows + i * (128 * row_bytes >> 4), step),
                               advance(tokens, step), Add || step > 0);
            }
        }
        close_multiply_group();
    }

    template <int RowTiles, int Columns>
    __device__ __forceinline__ void fold(const Products<Columns> (&products)[RowTiles], const Head& now) {
        if constexpr (Indexed) {
            if (!seen_) {
                const int token = first_kept(now.keep, now.base);
#pragma unroll
                for (int i = 0; i < 4; ++i) best_[i / 2][i % 2].token = token;
            }
        }
        seen_ = true;
        const int shift = 2 * (lane_ % 4);
        std::uint32_t keep[boxes_of_tile];
        std::uint32_t full = 0;
#pragma unroll
        for (int b = 0; b < boxes_of_tile; ++b) {
            keep[b] = now.keep[b] >> shift;
            if (now.keep[b] == all_lanes) full |= 1U << b;
        }
        if constexpr (RowTiles == 2) {
            Fold<Indexed>::tile(best_, products, keep, full, now.base + shift);
        } else {
            Maximum<Indexed> best[1][2] = {{best_[0][0], best_[0][1]}};
            Fold<Indexed>::tile(best, products, keep, full, now.base + shift);
            best_[0][0] = best[0][0];
            best_[0][1] = best[0][1];
        }
    }

    // Rows side by side, so that the exchanges of one wait while the others' are under way.
    __device__ __forceinline__ void finish() {
        wait(&control_.rows_empty[out_.slot], out_.phase ^ 1U);
#pragma unroll
        for (int distance = 1; distance <= 2; distance *= 2) {
#pragma unroll
            for (int i = 0; i < 4; ++i) join(best_[i / 2][i % 2], exchange(best_[i / 2][i % 2], distance));
        }
        if (lane_ % 4 == 0) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (i / 2 < row_tiles_) control_.rows[out_.slot][row_number(i / 2, i % 2)] = best_[i / 2][i % 2];
            }
        }
        hand_over(0);
    }

    __device__ __forceinline__ void hand_over(int stop) {
        if (stop != 0) wait(&control_.rows_empty[out_.slot], out_.phase ^ 1U);
        if (threadIdx.x == 0) control_.notes[out_.slot] = {unit_, seen_, stop};
        __syncwarp();
        if (lane_ == 0) arrive(&control_.rows_full[out_.slot]);
        out_.advance(Control::buffers);
    }

    Control& control_;
    std::byte* queries_;
    const Arguments& call_;
    DocumentReader reader_;
    const int group_ = uniform(static_cast<int>(threadIdx.x / 128));
    const int warp_ = uniform(static_cast<int>(threadIdx.x / 32 % 4));
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    RingPlace out_;
    Unit unit_{-1, -1, -1};
    int row_tiles_ = 1;
    bool seen_ = false;
    const int slots_of_tile_ = slots_of_token(call_.params.dim);
    Head head_;
    Maximum<Indexed> best_[2][2];
};

/// Warp 9: rows lane, lane + 32, .. of the block.
template <bool Indexed>
class ManyRowsWriter {
  public:
    using Control = ManyRowsControl<Indexed>;

    __device__ __forceinline__ ManyRowsWriter(Control& control, const Arguments& call)
        : control_(control), call_(call) {}

    __device__ __forceinline__ void run() {
        RingPlace in;
        for (;;) {
            wait(&control_.rows_full[in.slot], in.phase);
            const UnitNote note = control_.notes[in.slot];
            if (note.stop != 0) return;
            if (new_queries(call_.params, unit_, note.unit)) find_places(note.unit);
            unit_ = note.unit;
            take(control_.rows[in.slot], note.seen != 0);
            __syncwarp();
            if (lane_ == 0) arrive(&control_.rows_empty[in.slot]);
            in.advance(Control::buffers);
            write_scores(call_, unit_, control_.octs);
            __syncwarp();
        }
    }

  private:
    __device__ __forceinline__ void find_places(const Unit& unit) {
#pragma unroll
        for (int i = 0; i < passes; ++i) places_[i] = place_of(call_, unit, lane_ + 32 * i);
    }

    // All passes side by side: rows that are not used have places that do not count.
    __device__ __forceinline__ void take(const Maximum<Indexed> (&rows)[many_rows_block], bool seen) {
        float sum[passes];
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const Maximum<Indexed> best = rows[lane_ + 32 * i];
            if (rows_wanted<Indexed>(call_)) write_row(call_, unit_, places_[i], best, seen);
            sum[i] = seen && places_[i].kept() ? best.value : 0.0F;
        }
#pragma unroll
        for (int distance = 4; distance >= 1; distance /= 2) {
#pragma unroll
            for (int i = 0; i < passes; ++i) sum[i] += exchange(sum[i], distance);
        }
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            if (lane_ % rows_of_oct == 0) control_.octs[lane_ / rows_of_oct + 4 * i] = sum[i];
        }
    }

    static constexpr int passes = many_rows_block / 32;
    Control& control_;
    const Arguments& call_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    Unit unit_{-1, -1, -1};
    RowPlace places_[passes];
};

template <TokenType Type, bool Indexed>
__global__ void __launch_bounds__(tiled_threads(many_rows_groups), 1)
    many_rows(const __grid_constant__ TiledArguments arguments) {
    extern __shared__ std::byte memory[];
    std::byte* slots = aligned_slots(memory);
    const Arguments& call = arguments.call;
    std::byte* queries = slots + call.stages * slot_bytes;
    using Control = ManyRowsControl<Indexed>;
    auto& control =
        *reinterpret_cast<Control*>(queries + slots_of_token(call.params.dim) * many_rows_block * row_bytes);
    if (threadIdx.x == 0) {
        init_ring(control.ring, slots, call.stages, reading_warps);
        for (int b = 0; b < ManyRowsControl<Indexed>::buffers; ++b) {
            init(&control.rows_full[b], reading_warps);
            init(&control.rows_empty[b], 1);
        }
        fence_barrier_init();
        prefetch_map(&arguments.tile);
        prefetch_map(&arguments.quarter);
    }
    __syncthreads();
    const int warp = uniform(static_cast<int>(threadIdx.x / 32));
    if (warp < reading_warps) {
        take_registers<Registers<many_rows_groups>::reader>();
        ManyRowsReader<Type, Indexed>(control, queries, call).run();
    } else {
        release_registers<Registers<many_rows_groups>::others>();
        if (warp == reading_warps) DocumentProducer(control.ring, arguments, 0, 1).run();
        if (warp == reading_warps + 1) ManyRowsWriter<Indexed>(control, call).run();
    }
}

template <TokenType Type, bool Indexed>
KernelEntry many_rows_entry() {
    return {reinterpret_cast<const void*>(&many_rows<Type, Indexed>),
            many_rows_block,
            Indexed,
            static_cast<int>(sizeof(ManyRowsControl<Indexed>)),
            1,
            tiled_threads(many_rows_groups)};
}

}  // namespace rowmax::cuda
