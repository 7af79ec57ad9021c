// Tokens of more dimensions than one chain of the tensor cores may add up, whatever the number of query rows.
//
//   query rows 16 to 128 (M)  x  document tile 128 tokens (N)  ->  one maximum a row
//
//   Sums of chains of 128 dimensions are put aside in registers, which leaves room for 64 rows a warpgroup:
//
//   rows 65 to 128     each of the two warpgroups multiplies 64 rows with all tokens of a tile, and they take turns
//                      with the tensor cores, chain by chain
//   up to 64 rows      both multiply the same rows, each with its half of the tile's tokens
//
//   The block has as many rows as shared memory holds beside a ring of tiles. A matrix instruction takes 64: what it
//   reads behind fewer rows lands in rows of the product that nobody looks at.
//
//   warps 0..3, 4..7   the two warpgroups
//   warp 8             fills the ring of document tiles (document_ring.cuh)
//   warp 9             adds up the maxima that the warpgroups leave, writes scores and winners (row_maxima.cuh)
//
//   shared memory: query tiles (ceil(d / 64) x rows x 128 bytes) | ring slots | Control
#pragma once

#include "cuda/kernels/document_producer.cuh"
#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/products.cuh"
#include "cuda/kernels/query_tile.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/row_maxima.cuh"
#include "cuda/kernels/shifted_rows.cuh"
#include "cuda/kernels/token_norms.cuh"
#include "cuda/prim/wgmma.cuh"
#include "cuda/tuning.hpp"

namespace rowmax::cuda {

inline constexpr int wide_rows_block = 128;
inline constexpr int wide_rows_groups = 2;
inline constexpr int wide_rows_warps = 4 * wide_rows_groups;

template <bool Indexed>
struct WideRowsControl {
    Warmth warmth;
    DocumentRing ring;
    RowMaxima<Indexed, wide_rows_block> maxima;
    TileNorms norms[wide_rows_groups];  ///< each warpgroup finds those of its tokens
    float query_inverse[wide_rows_block];
};

template <TokenType Type, bool Indexed>
class WideRowsReader {
  public:
    using Control = WideRowsControl<Indexed>;

    __device__ __forceinline__ WideRowsReader(Control& control, std::byte* queries, const Arguments& call)
        : control_(control),
          queries_(queries),
          call_(call),
          reader_(control.ring, call.stages),
          norms_(control.norms[threadIdx.x / 128], static_cast<int>(threadIdx.x / 32 % 4)),
          out_(control.maxima) {}

    __device__ __forceinline__ void run() {
        if (!halves_ && group_ == 1) pass_turn();
        reader_.read_head(head_);
        while (!head_.flags.stop()) {
            const TileHead now = head_;
            if (now.flags.first()) begin_unit(now);
            see(now);
            switch (boxes_of_group(now)) {
                case 0: leave_tile(now); break;
                case 1: take_columns<32>(now); break;
                case 2: take_columns<64>(now); break;
                case 3: take_columns<96>(now); break;
                default: take_columns<128>(now); break;
            }
            if (now.flags.last()) finish();
        }
        if (!halves_ && group_ == 0) take_turn();
        if (call_.params.normalize) norms_.stop();
        out_.stop();
    }

  private:
    __device__ __forceinline__ void begin_unit(const TileHead& now) {
        const bool reload = new_queries(call_.params, unit_, now.unit);
        unit_ = now.unit;
        seen_ = false;
        best_[0][0] = best_[0][1] = {};
        if (reload) load_queries();
    }

    // Both warpgroups together: they see the same units.
    __device__ __forceinline__ void load_queries() {
        constexpr int threads = 128 * wide_rows_groups;
        const int rows = call_.plan.rows;
        const int thread = static_cast<int>(threadIdx.x);
        sync_threads(1, threads);
        load_query_rows<Type>(call_, unit_, queries_, rows, 0, rows, thread, threads);
        if (call_.params.normalize) {
            sync_threads(1, threads);
            if (thread < rows) {
                control_.query_inverse[thread] = normalize_query_row<Type>(queries_, rows, thread, call_.params.dim);
            }
        }
        fence_async_proxy();
        sync_threads(1, threads);
    }

    // Named barriers 3 and 4: the turn of either warpgroup. Both see the same chains, so turns come out even.
    __device__ __forceinline__ void take_turn() {
        if (!halves_) sync_threads(3 + group_, 256);
    }
    __device__ __forceinline__ void pass_turn() {
        if (!halves_) arrive_threads(4 - group_, 256);
    }

    [[nodiscard]] __device__ __forceinline__ int boxes_of_group(const TileHead& now) const {
        if (!halves_) return now.flags.boxes();
        const int boxes = now.flags.boxes() - 2 * group_;
        return boxes < 0 ? 0 : (boxes > 2 ? 2 : boxes);
    }
    [[nodiscard]] __device__ __forceinline__ int first_token() const { return halves_ ? 64 * group_ : 0; }

    __device__ __forceinline__ void see(const TileHead& now) {
        if (now.flags.boxes() == 0) return;
        if constexpr (Indexed) {
            if (!seen_) best_[0][0].token = best_[0][1].token = first_kept(now.keep, now.base);
        }
        seen_ = true;
    }

    __device__ __forceinline__ void leave_tile(const TileHead& now) {
        const int slots = now.flags.boxes() == 0 ? 1 : slots_of_tile_;
        reader_.leave();
        for (int s = 1; s < slots; ++s) {
            reader_.wait_full();
            reader_.leave();
        }
        reader_.read_head(head_);
    }

    template <int Columns>
    __device__ __forceinline__ void take_columns(const TileHead& now) {
        Products<Columns> products[1];
        Products<Columns> aside[1];
        PassingNorm<Type> norm;
#pragma unroll
        for (int i = 0; i < Columns / 2; ++i) aside[0].value[i] = 0;
#pragma unroll 1
        for (int s = 0; s < slots_of_tile_; s += slots_of_chain) {
            if (s > 0) reader_.wait_full();
            if (call_.d_by_loads) [[unlikely]]
                put_right(s);
            take_turn();
            multiply_slot<false>(products[0], s);
            const int first = reader_.slot();
            if (s + 1 < slots_of_tile_) {
                reader_.advance();
                reader_.wait_full();
                multiply_slot<true>(products[0], s + 1);
            }
            pass_turn();
            const int last = reader_.slot();
            if (call_.params.normalize) {
                add_squares<2>(norm, reader_, first, token_of_thread());
                if (last != first) add_squares<2>(norm, reader_, last, token_of_thread());
            }
            if (last != first) {
                wait_multiply_groups<1>();
                reader_.release(first);
            }
            reader_.advance();
            if (s + slots_of_chain >= slots_of_tile_) reader_.read_head(head_);
            wait_multiply_groups<0>();
            reader_.release(last);
#pragma unroll
            for (int i = 0; i < Columns / 2; ++i) aside[0].value[i] += products[0].value[i];
        }
        if (call_.params.normalize) {
            norms_.put(now, token_of_thread(), first_token(), first_token() + (halves_ ? 64 : tile_tokens), norm);
            scale_columns(aside, norms_.next() + first_token());
        }
        fold(aside, now);
    }

    // The slots of a chain, which were loaded: the warps that read them move their rows to where they belong. Each
    // warpgroup its own half of the tokens, or both together.
    __device__ __forceinline__ void put_right(int s) {
        move_rows(reader_);
        if (s + 1 < slots_of_tile_) {
            DocumentReader second = reader_;
            second.advance();
            second.wait_full();
            move_rows(second);
        }
        fence_async_proxy();
        sync_threads(halves_ ? 5 + group_ : 5, halves_ ? 128 : 256);
    }
    __device__ __forceinline__ void move_rows(const DocumentReader& slot) const {
        using Rows = ShiftedRows<Type, 4>;
        static_assert(tile_tokens == wide_rows_warps * Rows::at_once);
        const std::uint32_t ninths =
            ninths_of_ring<Type>(1, 0, call_.stages) + static_cast<std::uint32_t>(slot.slot() * ninths_bytes_of(Type));
        const int first = Rows::at_once * (4 * group_ + warp_);
        if (call_.d_shifted && first < slot.rows() / 16) {
            Rows::move(slot.address(), ninths, slot.rows(), call_.params.d.row_stride, first);
        }
    }

    /// Whose norm a thread finds. With halves, half of the threads repeat what others do.
    [[nodiscard]] __device__ __forceinline__ int token_of_thread() const {
        return halves_ ? 64 * group_ + static_cast<int>(threadIdx.x % 64) : static_cast<int>(threadIdx.x % 128);
    }

    template <bool Add, int Columns>
    __device__ __forceinline__ void multiply_slot(Products<Columns>& products, int s) {
        const std::uint64_t tokens = operand(reader_.address() + first_token() * row_bytes);
        const std::uint64_t rows =
            operand(shared_address(queries_) + (s * call_.plan.rows + (halves_ ? 0 : 64 * group_)) * row_bytes);
        multiply_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            multiply<Type>(products.value, advance(rows, step), advance(tokens, step), Add || step > 0);
        }
        close_multiply_group();
    }

    template <int Columns>
    __device__ __forceinline__ void fold(const Products<Columns> (&products)[1], const TileHead& now) {
        const int shift = 2 * (lane_ % 4);
        const bool second = halves_ && group_ == 1;
        std::uint32_t keep[boxes_of_tile];
        std::uint32_t full = 0;
#pragma unroll
        for (int b = 0; b < boxes_of_tile; ++b) {
            const std::uint32_t bits = second ? now.keep[(b + 2) % boxes_of_tile] : now.keep[b];
            keep[b] = bits >> shift;
            if (bits == all_lanes) full |= 1U << b;
        }
        // A half has no more than two boxes; the bits of others would make its last one look like none of the usual.
        Fold<Indexed>::tile(best_, products, keep, full & ((1U << (Columns / 32)) - 1U),
                            now.base + first_token() + shift);
    }

    __device__ __forceinline__ void finish() {
        out_.begin();
#pragma unroll
        for (int distance = 1; distance <= 2; distance *= 2) {
#pragma unroll
            for (int i = 0; i < 2; ++i) join(best_[0][i], exchange(best_[0][i], distance));
        }
        if (lane_ % 4 == 0) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = 64 * group_ + 16 * warp_ + 8 * i + lane_ / 4;
                out_.put(row, best_[0][i]);
                if (call_.params.normalize) out_.put_inverse(row, control_.query_inverse[row]);
            }
        }
        out_.send(unit_, seen_);
    }

    static constexpr int slots_of_chain = static_cast<int>(chain_of(Type, tiled_dim_most + 1)) / slot_dims;
    static_assert(slots_of_chain == 2);

    Control& control_;
    std::byte* queries_;
    const Arguments& call_;
    DocumentReader reader_;
    const int group_ = uniform(static_cast<int>(threadIdx.x / 128));
    const int warp_ = uniform(static_cast<int>(threadIdx.x / 32 % 4));
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    const bool halves_ = call_.plan.rows <= wide_rows_block / 2;
    NormsOfTiles<Type> norms_;
    MaximaSender<Indexed, wide_rows_block> out_;
    Unit unit_{-1, -1, -1};
    bool seen_ = false;
    const int slots_of_tile_ = slots_of_token(call_.params.dim);
    TileHead head_;
    Maximum<Indexed> best_[1][2];
};

template <TokenType Type, bool Indexed>
__global__ void __launch_bounds__(tiled_threads(wide_rows_groups), 1)
    wide_rows(const __grid_constant__ TiledArguments arguments) {
    extern __shared__ std::byte memory[];
    using Control = WideRowsControl<Indexed>;
    const Arguments& call = arguments.call;
    std::byte* queries = aligned_slots(memory);
    std::byte* slots = queries + slots_of_token(call.params.dim) * call.plan.rows * row_bytes;
    auto& control = *reinterpret_cast<Control*>(slots + call.stages * slot_bytes);
    warm_up(arguments, control.warmth);
    const bool looks_after_far = may_be_far<Type> && call.params.normalize;
    const int loaders = filling_warps(call, looks_after_far ? 1 : 3);
    if (threadIdx.x % 32 == 0) {
        init_ring(control.ring, slots, wide_rows_warps, call.d_by_loads ? arrivals_of_copies : 1);
        if (threadIdx.x == 0) init_maxima(control.maxima, wide_rows_warps);
        if (threadIdx.x / 32 - 1 < wide_rows_groups) {
            init_norms(control.norms[threadIdx.x / 32 - 1], wide_rows_warps / wide_rows_groups);
        }
        fence_barrier_init();
    }
    __syncthreads();
    wait_for_earlier_kernels();
    const int warp = uniform(static_cast<int>(threadIdx.x / 32));
    if (warp < wide_rows_warps) {
        take_registers<Registers<wide_rows_groups>::reader>();
        WideRowsReader<Type, Indexed>(control, queries, call).run();
    } else {
        release_registers<Registers<wide_rows_groups>::others>();
        // The last two warps help.
        const bool helps = warp > wide_rows_warps + 1;
        if (warp == wide_rows_warps || (helps && loaders > 1)) {
            fill_ring<Type, false, 0>(control.ring, arguments, 0, 1, {helps ? warp - wide_rows_warps - 1 : 0, loaders});
        }
        if (warp == wide_rows_warps + 1) RowWriter<Indexed, wide_rows_block, true>(control.maxima, call).run();
        if constexpr (may_be_far<Type>) {
            const int far = warp - (wide_rows_warps + 2);
            if (far >= 0 && call.params.normalize) {
                look_after_far_tokens<Type>(control.norms[far], call, wide_rows_warps / wide_rows_groups);
            }
        }
    }
}

template <TokenType Type, bool Indexed>
KernelEntry wide_rows_entry() {
    KernelEntry entry(Type);
    entry.function = reinterpret_cast<const void*>(&wide_rows<Type, Indexed>);
    entry.rows = wide_rows_block;
    entry.least_rows = 16;
    entry.indexed = Indexed;
    entry.control_bytes = static_cast<int>(sizeof(WideRowsControl<Indexed>));
    entry.threads = tiled_threads(wide_rows_groups);
    return entry;
}

}  // namespace rowmax::cuda
