// Few query rows (up to 128) against documents, at the speed of memory.
//
//   document tile  128 tokens (M)  x  query rows N  ->  one maximum a column
//
//   warps 0..3, 4..7   two warpgroups: each multiplies 64 of a tile's tokens with all query rows and keeps, in
//   registers,
//                      the maxima of its own tokens; at the unit's end its warps leave them in `maxima`
//   warp 8             fills the ring of document tiles (document_ring.cuh)
//   warp 9             joins the eight warps' maxima, adds them up, writes the scores
//
//   ring.full, ring.empty   warp 8 <-> warpgroups          maxima_full, maxima_empty   warpgroups <-> warp 9
//
//   shared memory: ring slots | query tiles (ceil(d / 64) x N x 128 bytes) | Control
#pragma once

#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/query_tile.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/scores.cuh"
#include "cuda/prim/wgmma.cuh"

namespace rowmax::cuda {

template <int Columns, bool Indexed>
struct FewRowsControl {
    static constexpr int buffers = 2;
    DocumentRing ring;
    Barrier maxima_full[buffers];
    Barrier maxima_empty[buffers];
    UnitNote notes[buffers];
    float octs[Columns / rows_of_oct];
    Maximum<Indexed> maxima[buffers][reading_warps][Columns];
};

template <TokenType Type, int Columns, bool Indexed>
class FewRowsReader {
  public:
    using Control = FewRowsControl<Columns, Indexed>;

    __device__ __forceinline__ FewRowsReader(Control& control, std::byte* queries, const Arguments& call)
        : control_(control), queries_(queries), call_(call), reader_(control.ring, call.stages) {}

    __device__ __forceinline__ void run() {
        for (;;) {
            const Tile& tile = reader_.next();
            if (uniform(tile.stop) != 0) break;
            begin_tile(tile);
            if (uniform(tile.boxes) == 0) {
                const bool last = uniform(tile.last) != 0;
                leave_slot();
                if (last) finish();
                continue;
            }
            if constexpr (Indexed) {
                if (!seen_) {
                    const int token = first_kept(tile);
#pragma unroll
                    for (int c = 0; c < columns_of_thread; ++c) best_[c].token = token;
                }
            }
            seen_ = true;
            const bool last = uniform(tile.last) != 0;
            const std::uint32_t mine = tile.keep[2 * group_ + warp_ / 2] >> (warp_ % 2 * 16) & 0xffffU;
            const bool idle = uniform(static_cast<int>(tile.keep[2 * group_] | tile.keep[2 * group_ + 1])) == 0;
            const int token = tile.base + 64 * group_ + 16 * warp_ + lane_ / 4;
            if (idle) {
                pass_tile();
            } else {
                multiply_tile();
                fold(mine, token);
            }
            if (last) finish();
        }
        hand_over(1);
    }

  private:
    __device__ __forceinline__ void begin_tile(const Tile& tile) {
        if (uniform(tile.first) == 0) return;
        const bool reload = new_queries(call_.params, unit_, tile.unit);
        unit_ = tile.unit;
        seen_ = false;
#pragma unroll
        for (int c = 0; c < columns_of_thread; ++c) best_[c] = {};
        if (reload) load_queries();
    }

    // Both warpgroups read the same rows: none may still multiply when they change.
    __device__ __forceinline__ void load_queries() {
        sync_threads(1, reading_threads);
        load_query_rows(call_, unit_, queries_, Columns, 0, Columns, static_cast<int>(threadIdx.x), reading_threads);
        fence_async_proxy();
        sync_threads(1, reading_threads);
    }

    __device__ __forceinline__ void leave_slot() {
        reader_.release(reader_.slot());
        reader_.advance();
    }

    __device__ __forceinline__ void multiply_tile() {
        const int slots = slots_of_token(call_.params.dim);
        multiply_slot<false>(0);
#pragma unroll 1
        for (int s = 1; s < slots; ++s) {
            const int before = reader_.slot();
            reader_.advance();
            reader_.wait_full();
            multiply_slot<true>(s);
            wait_multiply_groups<1>();
            reader_.release(before);
        }
        wait_multiply_groups<0>();
        leave_slot();
    }

    template <bool Add>
    __device__ __forceinline__ void multiply_slot(int s) {
        const std::uint64_t tokens = operand(reader_.data() + group_ * 64 * row_bytes);
        const std::uint64_t rows = operand(queries_ + s * Columns * row_bytes);
        multiply_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            multiply<Type>(sum_, advance(tokens, step), advance(rows, step), Add || step > 0);
        }
        close_multiply_group();
    }

    // A warpgroup that keeps nothing of a tile only passes by.
    __device__ __forceinline__ void pass_tile() {
        const int slots = slots_of_token(call_.params.dim);
        for (int s = 0; s < slots; ++s) {
            if (s > 0) reader_.wait_full();
            leave_slot();
        }
    }

    __device__ __forceinline__ static void take(Maximum<Indexed>& best, float a, float b, int token) {
        if constexpr (Indexed) {
            const auto one = [&](float s, int at) {
                if (!(s <= best.value) && best.value == best.value) best = {s, at};
            };
            one(a, token);
            one(b, token + 8);
        } else {
            best.value = max_or_nan(best.value, max_or_nan(a, b));
        }
    }

    /// `keep`: bits of this warp's 16 tokens. `token`: the first of this thread's two.
    __device__ __forceinline__ void fold(std::uint32_t keep, int token) {
        if (keep == 0xffffU) {
#pragma unroll
            for (int c = 0; c < columns_of_thread; ++c)
                take(best_[c], sum_[c / 2 * 4 + c % 2], sum_[c / 2 * 4 + c % 2 + 2], token);
            return;
        }
        const bool keeps_a = (keep >> (lane_ / 4) & 1U) != 0;
        const bool keeps_b = (keep >> (lane_ / 4 + 8) & 1U) != 0;
#pragma unroll
        for (int c = 0; c < columns_of_thread; ++c) {
            const float a = keeps_a ? sum_[c / 2 * 4 + c % 2] : minus_infinity;
            const float b = keeps_b ? sum_[c / 2 * 4 + c % 2 + 2] : minus_infinity;
            take(best_[c], a, b, token);
        }
    }

    __device__ __forceinline__ void finish() {
        int first = 0;
        reduce_all(first);
        wait(&control_.maxima_empty[out_.buffer], out_.phase ^ 1U);
        constexpr int left = columns_of_thread > 8 ? columns_of_thread / 8 : 1;
#pragma unroll
        for (int i = 0; i < left; ++i) {
            const int c = first + i;
            control_.maxima[out_.buffer][group_ * 4 + warp_][c / 2 * 8 + 2 * (lane_ % 4) + c % 2] = best_[i];
        }
        hand_over(0);
    }

    __device__ __forceinline__ void reduce_all(int& first) {
        reduce_step<columns_of_thread, 16>(first);
        reduce_step<(columns_of_thread > 1 ? columns_of_thread / 2 : 1), 8>(first);
        reduce_step<(columns_of_thread > 3 ? columns_of_thread / 4 : 1), 4>(first);
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

    __device__ __forceinline__ void hand_over(int stop) {
        if (stop != 0) wait(&control_.maxima_empty[out_.buffer], out_.phase ^ 1U);
        if (threadIdx.x == 0) control_.notes[out_.buffer] = {unit_, seen_ ? 1 : 0, stop};
        __syncwarp();
        if (lane_ == 0) arrive(&control_.maxima_full[out_.buffer]);
        out_.advance(Control::buffers);
    }

    static constexpr int columns_of_thread = Columns / 4;
    Control& control_;
    std::byte* queries_;
    const Arguments& call_;
    DocumentReader reader_;
    const int group_ = uniform(static_cast<int>(threadIdx.x / 128));
    const int warp_ = uniform(static_cast<int>(threadIdx.x / 32 % 4));
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    BufferPlace out_;
    Unit unit_{-1, -1, -1};
    bool seen_ = false;
    float sum_[Columns / 2];
    Maximum<Indexed> best_[columns_of_thread];
};

/// Warp 9.
template <int Columns, bool Indexed>
class FewRowsWriter {
  public:
    using Control = FewRowsControl<Columns, Indexed>;

    __device__ __forceinline__ FewRowsWriter(Control& control, const Arguments& call)
        : control_(control), call_(call) {}

    __device__ __forceinline__ void run() {
        for (;;) {
            wait(&control_.maxima_full[in_.buffer], in_.phase);
            const UnitNote note = control_.notes[in_.buffer];
            if (note.stop != 0) return;
            if (new_queries(call_.params, unit_, note.unit)) find_kept(note.unit);
            unit_ = note.unit;
            for (int i = 0; i < passes; ++i) add(i, note.seen != 0);
            __syncwarp();
            if (lane_ == 0) arrive(&control_.maxima_empty[in_.buffer]);
            in_.advance(Control::buffers);
            write_scores(call_, unit_, control_.octs);
            __syncwarp();
        }
    }

  private:
    static constexpr int passes = (Columns + 31) / 32;

    __device__ __forceinline__ void find_kept(const Unit& unit) {
        kept_ = 0;
        for (int i = 0; i < passes; ++i) {
            const int column = lane_ + 32 * i;
            if (column < Columns && row_of(call_.params, call_.plan, unit, column).kept) kept_ |= 1U << i;
        }
    }

    __device__ __forceinline__ void add(int pass, bool seen) {
        const int column = lane_ + 32 * pass;
        const bool mine = column < Columns;
        Maximum<Indexed> best;
        if (mine) {
            best = control_.maxima[in_.buffer][0][column];
            for (int w = 1; w < reading_warps; ++w) join(best, control_.maxima[in_.buffer][w][column]);
            if (rows_wanted<Indexed>(call_)) {
                write_row(call_, unit_, row_of(call_.params, call_.plan, unit_, column), best, seen);
            }
        }
        const bool counts = mine && seen && (kept_ >> pass & 1U) != 0;
        const float sum = sum_of_oct<1>(counts ? best.value : 0.0F);
        if (mine && lane_ % rows_of_oct == 0) control_.octs[column / rows_of_oct] = sum;
    }

    Control& control_;
    const Arguments& call_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    BufferPlace in_;
    Unit unit_{-1, -1, -1};
    std::uint32_t kept_ = 0;
};

/// Bytes of shared memory besides the ring's slots; 1024 to align it.
template <int Columns, bool Indexed>
constexpr int few_rows_bytes(std::int64_t dim) {
    return slots_of_token(dim) * Columns * row_bytes + static_cast<int>(sizeof(FewRowsControl<Columns, Indexed>)) +
           1024;
}

template <TokenType Type, int Columns, bool Indexed>
__global__ void __launch_bounds__(tiled_threads, 1) few_rows(const __grid_constant__ TiledArguments arguments) {
    extern __shared__ std::byte memory[];
    std::byte* slots = aligned_slots(memory);
    const Arguments& call = arguments.call;
    std::byte* queries = slots + call.stages * slot_bytes;
    using Control = FewRowsControl<Columns, Indexed>;
    Control& control = *reinterpret_cast<Control*>(queries + slots_of_token(call.params.dim) * Columns * row_bytes);
    if (threadIdx.x == 0) {
        init_ring(control.ring, slots, call.stages, reading_warps);
        for (int b = 0; b < Control::buffers; ++b) {
            init(&control.maxima_full[b], reading_warps);
            init(&control.maxima_empty[b], 1);
        }
        fence_barrier_init();
        prefetch_map(&arguments.tile);
        prefetch_map(&arguments.quarter);
    }
    __syncthreads();
    const int warp = uniform(static_cast<int>(threadIdx.x / 32));
    if (warp < reading_warps) {
        take_registers<consumer_registers>();
        FewRowsReader<Type, Columns, Indexed>(control, queries, call).run();
    } else {
        release_registers<producer_registers>();
        if (warp == reading_warps) DocumentProducer(control.ring, arguments).run();
        if (warp == reading_warps + 1) FewRowsWriter<Columns, Indexed>(control, call).run();
    }
}

}  // namespace rowmax::cuda
