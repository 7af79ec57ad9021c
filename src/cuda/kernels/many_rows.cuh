// Many query rows against documents, at the speed of the tensor cores.
//
//   query rows 256 (M, four tiles of 64)  x  document tile 128 tokens (N)  ->  one maximum a row
//
//   warps 0..3, 4..7   two warpgroups: the first takes row tiles 0 and 2, the second 1 and 3. Each multiplies a
//   document
//                      tile, then folds it into the rows' maxima in registers, while the other multiplies.
//   warp 8             fills the ring of document tiles (document_ring.cuh)
//   warp 9             adds up the sums of octs that the warps leave in `octs`, writes the scores
//
//   ring.full, ring.empty   warp 8 <-> warpgroups          octs_full, octs_empty   warpgroups <-> warp 9
//
//   shared memory: ring slots | query tiles (ceil(d / 64) x 256 x 128 bytes) | Control
//
// A document's last tile is multiplied with as many columns (32, 64, 96, 128) as its boxes hold.
#pragma once

#include "cuda/kernels/products.cuh"
#include "cuda/kernels/query_tile.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/scores.cuh"
#include "cuda/prim/wgmma.cuh"

namespace rowmax::cuda {

inline constexpr int many_rows_block = 256;
inline constexpr int many_rows_groups = 2;
inline constexpr int reading_warps = 4 * many_rows_groups;

/// What goes with the sums of a unit.
struct UnitNote {
    Unit unit;
    std::int32_t stop;
};

/// One of some buffers, taken in turn.
struct BufferPlace {
    int buffer = 0;
    std::uint32_t phase = 0;
    __device__ __forceinline__ void advance(int buffers) {
        if (++buffer == buffers) {
            buffer = 0;
            phase ^= 1U;
        }
    }
};

struct ManyRowsControl {
    static constexpr int buffers = 4;
    DocumentRing ring;
    Barrier octs_full[buffers];
    Barrier octs_empty[buffers];
    UnitNote notes[buffers];
    float octs[buffers][many_rows_block / rows_of_oct];
    bool kept[many_rows_block];
};

template <TokenType Type, bool Indexed>
class ManyRowsReader {
  public:
    __device__ __forceinline__ ManyRowsReader(ManyRowsControl& control, std::byte* queries, const Arguments& call)
        : control_(control), queries_(queries), call_(call), reader_(control.ring, call.stages) {}

    __device__ __forceinline__ void run() {
        if (group_ == 1) pass_turn();
        for (;;) {
            const Tile& tile = reader_.next();
            const TileFlags flags{uniform(tile.flags.bits)};
            if (flags.stop()) break;
            if (flags.first()) begin_unit(tile);
            if (flags.boxes() == 0) {
                reader_.release(reader_.slot());
                reader_.advance();
            } else {
                begin_tile(tile);
                if (row_tiles_ == 2) {
                    multiply_and_fold<2>(flags.boxes());
                } else {
                    multiply_and_fold<1>(flags.boxes());
                }
            }
            if (flags.last()) finish();
        }
        if (group_ == 0) take_turn();
        hand_over(1);
    }

  private:
    __device__ __forceinline__ void begin_unit(const Tile& tile) {
        const bool reload = new_queries(call_.params, unit_, tile.unit);
        unit_ = tile.unit;
        seen_ = false;
        for (auto& rows : best_) rows[0] = rows[1] = {};
        if (reload) load_queries();
    }

    // This warpgroup's rows only: the other one goes on with its own.
    __device__ __forceinline__ void load_queries() {
        const int thread = static_cast<int>(threadIdx.x % 128);
        const int used = rows_used(call_.params, call_.plan, unit_);
        row_tiles_ = uniform(used > 64 * (group_ + 2) ? 2 : 1);
        sync_threads(1 + group_, 128);
        for (int i = 0; i < row_tiles_; ++i) {
            const int first = 64 * (group_ + 2 * i);
            const bool kept = load_query_rows(call_, unit_, queries_, many_rows_block, first, 64, thread, 128);
            if (thread < 64) control_.kept[first + thread] = kept;
        }
        fence_async_proxy();
        sync_threads(1 + group_, 128);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int r = 0; r < 2; ++r) kept_[i][r] = i < row_tiles_ && control_.kept[row_number(i, r)];
        }
    }

    [[nodiscard]] __device__ __forceinline__ int row_number(int row_tile, int r) const {
        return 64 * (group_ + 2 * row_tile) + 16 * warp_ + 8 * r + lane_ / 4;
    }

    // What the tile's first slot says, before it is given back.
    __device__ __forceinline__ void begin_tile(const Tile& tile) {
        const int shift = 2 * (lane_ % 4);
        if constexpr (Indexed) {
            if (!seen_) {
                const int token = first_kept(tile);
                for (auto& rows : best_) rows[0].token = rows[1].token = token;
            }
        }
        seen_ = true;
        base_ = tile.base + shift;
        full_ = 0;
#pragma unroll
        for (int b = 0; b < boxes_of_tile; ++b) {
            keep_[b] = tile.keep[b] >> shift;
            if (tile.keep[b] == all_lanes) full_ |= 1U << b;
        }
    }

    // Named barriers 3 and 4: the turn of either warpgroup. Both see the same tiles, so turns come out even.
    __device__ __forceinline__ void take_turn() {
        sync_threads(3 + group_, 256);
    }
    __device__ __forceinline__ void pass_turn() {
        arrive_threads(4 - group_, 256);
    }

    template <int RowTiles>
    __device__ __forceinline__ void multiply_and_fold(int boxes) {
        switch (boxes) {
            case 1: return multiply_columns<RowTiles, 32>();
            case 2: return multiply_columns<RowTiles, 64>();
            case 3: return multiply_columns<RowTiles, 96>();
            default: return multiply_columns<RowTiles, 128>();
        }
    }

    template <int RowTiles, int Columns>
    __device__ __forceinline__ void multiply_columns() {
        Products<Columns> products[RowTiles];
        const int slots = slots_of_token(call_.params.dim);
        take_turn();
        multiply_slot<false>(products, 0);
#pragma unroll 1
        for (int s = 1; s < slots; ++s) {
            const int before = reader_.slot();
            reader_.advance();
            reader_.wait_full();
            multiply_slot<true>(products, s);
            wait_multiply_groups<1>();
            reader_.release(before);
        }
        pass_turn();
        wait_multiply_groups<0>();
        reader_.release(reader_.slot());
        reader_.advance();
        fold(products);
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
    __device__ __forceinline__ void fold(const Products<Columns> (&products)[RowTiles]) {
        if constexpr (RowTiles == 2) {
            Fold<Indexed>::tile(best_, products, keep_, full_, base_);
        } else {
            Maximum<Indexed> best[1][2] = {{best_[0][0], best_[0][1]}};
            Fold<Indexed>::tile(best, products, keep_, full_, base_);
            best_[0][0] = best[0][0];
            best_[0][1] = best[0][1];
        }
    }

    // Rows side by side, so that the exchanges of one wait while the others' are under way.
    __device__ __forceinline__ void finish() {
        wait(&control_.octs_empty[out_.buffer], out_.phase ^ 1U);
        float sum[4];
#pragma unroll
        for (int distance = 1; distance <= 2; distance *= 2) {
#pragma unroll
            for (int i = 0; i < 4; ++i) join(best_[i / 2][i % 2], exchange(best_[i / 2][i % 2], distance));
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] = kept_[i / 2][i % 2] && seen_ ? best_[i / 2][i % 2].value : 0.0F;
#pragma unroll
        for (int distance = 16; distance >= 4; distance /= 2) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[i] += exchange(sum[i], distance);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i / 2 < row_tiles_ && lane_ == 0) {
                control_.octs[out_.buffer][row_number(i / 2, i % 2) / rows_of_oct] = sum[i];
            }
        }
        if (rows_wanted<Indexed>(call_)) write_rows();
        hand_over(0);
    }

    __device__ __forceinline__ void write_rows() {
        if (lane_ % 4 != 0) return;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i / 2 >= row_tiles_) break;
            const Row row = row_of(call_.params, call_.plan, unit_, row_number(i / 2, i % 2));
            write_row(call_, unit_, row, best_[i / 2][i % 2], seen_);
        }
    }

    __device__ __forceinline__ void hand_over(int stop) {
        if (stop != 0) wait(&control_.octs_empty[out_.buffer], out_.phase ^ 1U);
        if (threadIdx.x == 0) control_.notes[out_.buffer] = {unit_, stop};
        __syncwarp();
        if (lane_ == 0) arrive(&control_.octs_full[out_.buffer]);
        out_.advance(ManyRowsControl::buffers);
    }

    ManyRowsControl& control_;
    std::byte* queries_;
    const Arguments& call_;
    DocumentReader reader_;
    const int group_ = uniform(static_cast<int>(threadIdx.x / 128));
    const int warp_ = uniform(static_cast<int>(threadIdx.x / 32 % 4));
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    BufferPlace out_;
    Unit unit_{-1, -1, -1};
    int row_tiles_ = 1;
    bool seen_ = false;
    std::uint32_t full_ = 0;  ///< bit b: box b is kept whole
    bool kept_[2][2];
    int base_ = 0;
    std::uint32_t keep_[boxes_of_tile];
    Maximum<Indexed> best_[2][2];
};

/// Warp 9.
__device__ __forceinline__ void write_many_rows(ManyRowsControl& control, const Arguments& call) {
    BufferPlace in;
    for (;;) {
        wait(&control.octs_full[in.buffer], in.phase);
        const UnitNote note = control.notes[in.buffer];
        if (note.stop != 0) return;
        write_scores(call, note.unit, control.octs[in.buffer]);
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&control.octs_empty[in.buffer]);
        in.advance(ManyRowsControl::buffers);
    }
}

template <TokenType Type, bool Indexed>
__global__ void __launch_bounds__(tiled_threads(many_rows_groups), 1)
    many_rows(const __grid_constant__ TiledArguments arguments) {
    extern __shared__ std::byte memory[];
    std::byte* slots = aligned_slots(memory);
    const Arguments& call = arguments.call;
    std::byte* queries = slots + call.stages * slot_bytes;
    auto& control =
        *reinterpret_cast<ManyRowsControl*>(queries + slots_of_token(call.params.dim) * many_rows_block * row_bytes);
    if (threadIdx.x == 0) {
        init_ring(control.ring, slots, call.stages, reading_warps);
        for (int b = 0; b < ManyRowsControl::buffers; ++b) {
            init(&control.octs_full[b], reading_warps);
            init(&control.octs_empty[b], 1);
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
        if (warp == reading_warps + 1) write_many_rows(control, call);
    }
}

}  // namespace rowmax::cuda
