// Many query rows against documents, with normalize. The norms of a tile are found by all that multiply: two warpgroups
// of 128 rows do that faster than the four of many_rows.cuh (docs/kernels.md).
//
//   query rows 256 (M, four tiles of 64)  x  document tile 128 tokens (N)  ->  one maximum a row
//
//   warps 0..3, 4..7   two warpgroups: the first takes row tiles 0 and 2, the second 1 and 3. Each multiplies a
//                      document tile, then folds it into the rows' maxima in registers, while the other multiplies.
//   warp 8             fills the ring of document tiles (document_ring.cuh)
//   warp 9             adds up the maxima that the warpgroups leave, writes scores and winners (row_maxima.cuh)
//
//   shared memory: ring slots | query tiles (ceil(d / 64) x 256 x 128 bytes) | Control
//
// A document's last tile is multiplied with as many columns (32, 64, 96, 128) as its boxes hold.
#pragma once

#include "cuda/kernels/document_producer.cuh"
#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/products.cuh"
#include "cuda/kernels/query_tile.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/row_maxima.cuh"
#include "cuda/kernels/token_norms.cuh"
#include "cuda/prim/wgmma.cuh"

namespace rowmax::cuda {

inline constexpr int normalized_rows_block = 256;
inline constexpr int normalized_rows_groups = 2;
inline constexpr int normalizing_warps = 4 * normalized_rows_groups;

template <bool Indexed>
struct NormalizedRowsControl {
    Warmth warmth;
    DocumentRing ring;
    RowMaxima<Indexed, normalized_rows_block> maxima;
    TileNorms norms;
    float query_inverse[normalized_rows_block];
};

template <TokenType Type, bool Indexed>
class NormalizedRowsReader {
  public:
    using Control = NormalizedRowsControl<Indexed>;

    __device__ __forceinline__ NormalizedRowsReader(Control& control, std::byte* queries, const Arguments& call)
        : control_(control),
          queries_(queries),
          call_(call),
          reader_(control.ring, call.stages),
          out_(control.maxima),
          norms_(control.norms, static_cast<int>(threadIdx.x / 32)) {}

    // While a tile is multiplied, the next one's head is read: only what depends on the products lies between two of a
    // warpgroup's multiplications.
    __device__ __forceinline__ void run() {
        if (group_ == 1) pass_turn();
        next_head();
        while (!head_.flags.stop()) {
            const TileHead now = head_;
            if (now.flags.first()) begin_unit(now);
            if (now.flags.boxes() == 0) {
                reader_.leave();
                next_head();
            } else if (row_tiles_ == 2) {
                take_tile<2>(now);
            } else {
                take_tile<1>(now);
            }
            if (now.flags.last()) finish();
        }
        if (group_ == 0) take_turn();
        norms_.stop();
        out_.stop();
    }

  private:
    __device__ __forceinline__ void next_head() {
        reader_.read_head(head_);
        if (head_.flags.boxes() > 0) find_norms();
    }

    // Of the tile that comes next, while this one is multiplied: each warpgroup those of half of its tokens, two lanes
    // a token.
    __device__ __forceinline__ void find_norms() {
        const int token = static_cast<int>(threadIdx.x / 2);
        PassingNorm<Type, 2> norm;
        DocumentReader ahead = reader_;
#pragma unroll 1
        for (int s = 0; s < slots_of_tile_; ++s) {
            if (s > 0) ahead.wait_full();
            add_squares<pieces_of_slot>(norm, ahead, ahead.slot(), token);
            ahead.advance();
        }
        norms_.put(head_, token, 0, tile_tokens, norm);
    }

    __device__ __forceinline__ void begin_unit(const TileHead& now) {
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
            load_query_rows<Type>(call_, unit_, queries_, normalized_rows_block, 64 * (group_ + 2 * i), 64, thread,
                                  128);
        }
        normalize_queries(thread);
        fence_async_proxy();
        sync_threads(1 + group_, 128);
    }

    __device__ __forceinline__ void normalize_queries(int thread) {
        sync_threads(1 + group_, 128);
        const int row = 64 * (group_ + 2 * (thread / 64)) + thread % 64;
        if (thread / 64 >= row_tiles_) return;
        control_.query_inverse[row] = normalize_query_row<Type>(queries_, normalized_rows_block, row, call_.params.dim);
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
    __device__ __forceinline__ void take_tile(const TileHead& now) {
        switch (now.flags.boxes()) {
            case 1: return take_columns<RowTiles, 32>(now);
            case 2: return take_columns<RowTiles, 64>(now);
            case 3: return take_columns<RowTiles, 96>(now);
            default: return take_columns<RowTiles, 128>(now);
        }
    }

    template <int RowTiles, int Columns>
    __device__ __forceinline__ void take_columns(const TileHead& now) {
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
        next_head();
        wait_multiply_groups<0>();
#pragma unroll
        for (Products<Columns>& tile : products) sum_is_complete(tile.value);
        reader_.release(last);
        scale_columns(products, norms_.next());
        fold(products, now);
    }

    template <bool Add, int RowTiles, int Columns>
    __device__ __forceinline__ void multiply_slot(Products<Columns> (&products)[RowTiles], int s) {
        const std::uint64_t tokens = operand(reader_.address());
        const std::uint64_t rows =
            operand(shared_address(queries_) + (s * normalized_rows_block + 64 * group_) * row_bytes);
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
    __device__ __forceinline__ void fold(const Products<Columns> (&products)[RowTiles], const TileHead& now) {
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
        out_.begin();
#pragma unroll
        for (int distance = 1; distance <= 2; distance *= 2) {
#pragma unroll
            for (int i = 0; i < 4; ++i) join(best_[i / 2][i % 2], exchange(best_[i / 2][i % 2], distance));
        }
        if (lane_ % 4 == 0) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (i / 2 >= row_tiles_) continue;
                const int row = row_number(i / 2, i % 2);
                out_.put(row, best_[i / 2][i % 2]);
                out_.put_inverse(row, control_.query_inverse[row]);
            }
        }
        out_.send(unit_, seen_);
    }

    Control& control_;
    std::byte* queries_;
    const Arguments& call_;
    DocumentReader reader_;
    const int group_ = uniform(static_cast<int>(threadIdx.x / 128));
    const int warp_ = uniform(static_cast<int>(threadIdx.x / 32 % 4));
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    MaximaSender<Indexed, normalized_rows_block> out_;
    NormsOfTiles<Type> norms_;
    Unit unit_{-1, -1, -1};
    int row_tiles_ = 1;
    bool seen_ = false;
    const int slots_of_tile_ = slots_of_token<Type>(call_.params.dim);
    TileHead head_;
    Maximum<Indexed> best_[2][2];
};

template <TokenType Type, bool Indexed>
__global__ void __launch_bounds__(tiled_threads(normalized_rows_groups), 1)
    normalized_rows(const __grid_constant__ TiledArguments arguments) {
    extern __shared__ std::byte memory[];
    std::byte* slots = aligned_slots(memory);
    const Arguments& call = arguments.call;
    std::byte* queries = slots + call.stages * slot_bytes;
    using Control = NormalizedRowsControl<Indexed>;
    auto& control = *reinterpret_cast<Control*>(queries + slots_of_token<Type>(call.params.dim) *
                                                              normalized_rows_block * row_bytes);
    warm_up(arguments, control.warmth);
    const int loaders = filling_warps(call, 2);
    if (threadIdx.x % 32 == 0) {
        init_ring(control.ring, slots, normalizing_warps, loaders);
        if (threadIdx.x == 0) init_maxima(control.maxima, normalizing_warps);
        if (threadIdx.x == 32) init_norms(control.norms, normalizing_warps);
        fence_barrier_init();
    }
    __syncthreads();
    wait_for_earlier_kernels();
    const int warp = uniform(static_cast<int>(threadIdx.x / 32));
    if (warp < normalizing_warps) {
        take_registers<Registers<normalized_rows_groups>::reader>();
        NormalizedRowsReader<Type, Indexed>(control, queries, call).run();
    } else {
        release_registers<Registers<normalized_rows_groups>::others>();
        // The last warp helps.
        const bool helps = warp == normalizing_warps + 3;
        if (warp == normalizing_warps || (helps && loaders > 1)) {
            fill_ring<Type>(control.ring, arguments, 0, 1, {helps ? 1 : 0, loaders});
        }
        if (warp == normalizing_warps + 1) RowWriter<Indexed, normalized_rows_block, false>(control.maxima, call).run();
        if constexpr (may_be_far<Type>) {
            if (warp == normalizing_warps + 2) look_after_far_tokens<Type>(control.norms, call, normalizing_warps);
        }
    }
}

template <TokenType Type, bool Indexed>
KernelEntry normalized_rows_entry() {
    KernelEntry entry(Type);
    entry.function = reinterpret_cast<const void*>(&normalized_rows<Type, Indexed>);
    entry.rows = entry.least_rows = normalized_rows_block;
    entry.indexed = Indexed;
    entry.normalize = NormalizeUse::only;
    entry.control_bytes = static_cast<int>(sizeof(NormalizedRowsControl<Indexed>));
    entry.threads = tiled_threads(normalized_rows_groups);
    return entry;
}

}  // namespace rowmax::cuda
