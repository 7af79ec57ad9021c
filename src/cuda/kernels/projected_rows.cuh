// Documents that are hidden states: projected by the last linear layer of their encoder, normalised, and scored, in one
// pass over them.
//
//   tile of 128 tokens x chunks of the hidden dimension  x  W^T  ->  128 x d sums in registers
//   + b, over the norm, rounded to the tokens' type               ->  128 x d, the rows of a second product
//   x query rows, 32 at a time                                    ->  one maximum a column, for the second pass
//
//   warpgroup g   multiplies and finishes its tiles; both share the chunks of W
//   one warp      fills the ring (projected_ring.cuh)
//
// W is read from L2 for every two tiles, half as many bytes as they are themselves. While tiles are finished, the ring
// fills.
//
//   shared memory: slots of the ring | query rows, two tiles of 64 dimensions | ProjectedControl
#pragma once

#include "cuda/kernels/column_maxima.cuh"
#include "cuda/kernels/projected_kernels.hpp"
#include "cuda/kernels/projected_ring.cuh"
#include "cuda/kernels/projected_tokens.cuh"
#include "cuda/kernels/query_tile.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/scores.cuh"
#include "cuda/prim/wgmma_registers.cuh"

namespace rowmax::cuda {

struct ProjectedControl {
    static constexpr int buffers = 2;
    ProjectedRing ring;
    float bias[projected_dim_most];
    std::int64_t places[projected_rows_most];  ///< of each row's maximum of the first tile; -1: not a token
    Maximum<true> maxima[projected_groups][buffers][4][projected_columns];
};

/// The two warpgroups of readers, before their first tile.
constexpr int projected_reader_threads = 128 * projected_groups;

template <TokenType Type>
__device__ __forceinline__ void load_bias(const ProjectedArguments& arguments, float* bias) {
    const auto i = static_cast<int>(threadIdx.x);
    if (i >= projected_dim_most) return;
    float two[2] = {0, 0};
    if (arguments.bias != nullptr && i < arguments.call.params.dim) {
        widen_two<Type>(static_cast<const std::uint16_t*>(arguments.bias)[i], two);
    }
    bias[i] = two[0];
}

template <TokenType Type>
__device__ __forceinline__ void load_all_queries(const ProjectedArguments& arguments, std::byte* queries,
                                                 std::int64_t* places) {
    const auto thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < arguments.query_rows * projected_row_bytes / 16; i += projected_reader_threads) {
        reinterpret_cast<uint4*>(queries)[i] = make_uint4(0, 0, 0, 0);
    }
    sync_threads(projected_groups + 1, projected_reader_threads);
    for (int first = 0; first < arguments.query_rows; first += projected_columns) {
        load_query_rows<Type>(arguments.call, {0, 0, 0}, queries, arguments.query_rows, first, projected_columns,
                              thread, projected_reader_threads);
    }
    const Plan& plan = arguments.call.plan;
    const std::int64_t length = arguments.call.params.q.max_length;
    for (int i = thread; i < arguments.query_rows; i += projected_reader_threads) {
        const Row row = row_of(arguments.call.params, plan, {0, 0, 0}, i);
        places[i] = row.in_query ? row.query * plan.width * plan.parts * length + row.position : -1;
    }
    fence_async_proxy();
}

template <TokenType Type, bool WantTokens>
class ProjectedReader {
  public:
    __device__ __forceinline__ ProjectedReader(ProjectedControl& control, std::byte* slots, std::byte* queries,
                                               const ProjectedArguments& arguments, int group)
        : control_(control),
          queries_(shared_address(queries)),
          arguments_(arguments),
          group_(group),
          reader_(control.ring, slots, arguments.call.stages) {}

    __device__ __forceinline__ void run() {
        const std::int64_t end = first_step(arguments_, blockIdx.x + 1, gridDim.x);
        for (std::int64_t step = first_step(arguments_, blockIdx.x, gridDim.x); step < end; ++step) {
            reader_.wait_full();
            const Tile& tile = reader_.tile(group_);
            unit_ = {0, uniform(tile.unit.item), tile.unit.part};
            base_ = tile.base;
            first_kept_ = first_kept(tile.keep, tile.base);
#pragma unroll
            for (int h = 0; h < 2; ++h) keep_[h] = tile.keep[2 * h + warp_ / 2] >> (warp_ % 2 * 16) & 0xffffU;
            const int boxes = uniform(tile.flags.boxes());
            if (boxes == 2) {
                take<2>();
            } else if (boxes == 1) {
                take<1>();
            } else {
                skip();
            }
        }
    }

  private:
    template <int Halves>
    __device__ __forceinline__ void take() {
        float sums[Halves][64];
        multiply_chunk<false>(sums);
#pragma unroll 1
        for (int chunk = 1; chunk < arguments_.chunks; ++chunk) {
            const int before = reader_.slot();
            reader_.advance();
            reader_.wait_full();
            multiply_chunk<true>(sums);
            wait_multiply_groups<1>();
            reader_.release(before);
        }
        wait_multiply_groups<0>();
        reader_.release(reader_.slot());
        reader_.advance();
        const float* bias = arguments_.bias == nullptr ? nullptr : control_.bias;
        TokenWords tokens[Halves];
#pragma unroll
        for (int h = 0; h < Halves; ++h) {
            sum_is_complete(sums[h]);
            round_tokens<Type>(sums[h], bias, arguments_.normalize, tokens[h]);
        }
        if constexpr (WantTokens) {
#pragma unroll
            for (int h = 0; h < Halves; ++h) write_tokens(tokens[h], base_ + 64 * h + 16 * warp_ + lane_ / 4);
        } else {
            for (int first = 0; first < arguments_.query_rows; first += projected_columns) score(tokens, first);
        }
    }

    template <bool Add, int Halves>
    __device__ __forceinline__ void multiply_chunk(float (&sums)[Halves][64]) {
        const std::uint64_t tokens = operand(reader_.tokens(group_));
        const std::uint64_t weights = operand(reader_.weights());
        multiply_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) {
#pragma unroll
            for (int h = 0; h < Halves; ++h) {
                multiply<Type>(sums[h], advance(tokens + h * (64 * row_bytes >> 4), step), advance(weights, step),
                               Add || step > 0);
            }
        }
        close_multiply_group();
    }

    /// A tile without kept tokens: its slots have no tokens, but the weights, for the other warpgroup.
    __device__ __forceinline__ void skip() {
        for (int chunk = 0; chunk < arguments_.chunks; ++chunk) {
            reader_.wait_full();
            reader_.release(reader_.slot());
            reader_.advance();
        }
        if (unit_.item < 0) return;
        const int rows = WantTokens ? 0 : arguments_.query_rows;
        for (int row = static_cast<int>(threadIdx.x % 128); row < rows; row += 128) write_row(row, {});
    }

    template <int Halves>
    __device__ __forceinline__ void score(const TokenWords (&tokens)[Halves], int first) {
        float sums[Halves][projected_columns / 2];
        const int tile_bytes = arguments_.query_rows * row_bytes;
        multiply_fence();
#pragma unroll
        for (int step = 0; step < projected_products; ++step) {
            const std::uint64_t rows = operand(queries_ + step / 4 * tile_bytes + first * row_bytes);
#pragma unroll
            for (int h = 0; h < Halves; ++h) {
                multiply<Type>(sums[h], tokens[h][step], advance(rows, step % 4), step > 0);
            }
        }
        close_multiply_group();
        wait_multiply_groups<0>();
        ColumnMaxima<projected_columns, true> best;
        best.clear();
        best.start(first_kept_);
#pragma unroll
        for (int h = 0; h < Halves; ++h) {
            sum_is_complete(sums[h]);
            best.fold(sums[h], keep_[h], base_ + 64 * h + 16 * warp_ + lane_ / 4);
        }
        leave(best, first);
    }

    // The warps take turns at joining what all four found.
    __device__ __forceinline__ void leave(ColumnMaxima<projected_columns, true>& best, int first) {
        auto& maxima = control_.maxima[group_][buffer_];
        best.leave_in(maxima[warp_]);
        // With two buffers this also says that the one before was read.
        sync_threads(1 + group_, 128);
        if (warp_ == first / projected_columns % 4) {
            Maximum<true> joined = maxima[0][lane_];
#pragma unroll
            for (int w = 1; w < 4; ++w) join(joined, maxima[w][lane_]);
            write_row(first + lane_, joined);
        }
        buffer_ ^= 1;
    }

    __device__ __forceinline__ void write_row(int row, const Maximum<true>& maximum) const {
        const Plan& plan = arguments_.call.plan;
        const std::int64_t place = control_.places[row];
        if (place < 0) return;
        const std::int64_t tile = std::int64_t{unit_.item} * plan.parts + unit_.part;
        const std::int64_t at = place + tile * arguments_.call.params.q.max_length;
        plan.part_maxima[at] = maximum.value;
        plan.part_index[at] = maximum.token;
    }

    __device__ __forceinline__ void write_tokens(const TokenWords& tokens, int token) const {
        const std::int64_t length = arguments_.call.params.d.length;
        const std::int64_t row = unit_.item * length + token;
        const int column = static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
        for (int second = 0; second < 2; ++second) {
            if (token + 8 * second >= length) return;
            auto* to = static_cast<std::uint16_t*>(arguments_.tokens) + (row + 8 * second) * arguments_.token_elements;
#pragma unroll
            for (int j = 0; j < projected_dim_most / 8; ++j) {
                if (8 * j >= arguments_.token_elements) break;
                *reinterpret_cast<std::uint32_t*>(to + 8 * j + column) = tokens[j / 2][j % 2 * 2 + second];
            }
        }
    }

    ProjectedControl& control_;
    const std::uint32_t queries_;
    const ProjectedArguments& arguments_;
    const int group_;
    ProjectedRingReader reader_;
    const int warp_ = uniform(static_cast<int>(threadIdx.x / 32 % 4));
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    Unit unit_;
    int base_ = 0;
    int first_kept_ = 0;
    int buffer_ = 0;
    std::uint32_t keep_[2];
};

template <TokenType Type, bool WantTokens>
__global__ void __launch_bounds__(tiled_threads(projected_groups), 1)
    projected_rows(const __grid_constant__ ProjectedArguments arguments) {
    extern __shared__ std::byte memory[];
    using Share = Registers<projected_groups>;
    std::byte* slots = aligned_slots(memory);
    std::byte* queries = slots + arguments.call.stages * projected_slot_bytes;
    auto& control = *reinterpret_cast<ProjectedControl*>(queries + arguments.query_rows * projected_row_bytes);
    if (threadIdx.x == 0) {
        init_ring(control.ring);
        fence_barrier_init();
    }
    __syncthreads();
    const int warp = uniform(static_cast<int>(threadIdx.x / 32));
    if (warp < 4 * projected_groups) {
        take_registers<Share::reader>();
        load_bias<Type>(arguments, control.bias);
        if constexpr (!WantTokens) load_all_queries<Type>(arguments, queries, control.places);
        sync_threads(projected_groups + 1, projected_reader_threads);
        ProjectedReader<Type, WantTokens>(control, slots, queries, arguments, warp / 4).run();
    } else {
        release_registers<Share::others>();
        if (warp == 4 * projected_groups) ProjectedProducer(control.ring, slots, arguments).run();
    }
}

template <TokenType Type>
ProjectedKernels projected_kernels() {
    ProjectedKernels kernels;
    kernels.score = reinterpret_cast<const void*>(&projected_rows<Type, false>);
    kernels.tokens = reinterpret_cast<const void*>(&projected_rows<Type, true>);
    kernels.threads = tiled_threads(projected_groups);
    kernels.control_bytes = static_cast<int>(sizeof(ProjectedControl));
    return kernels;
}

}  // namespace rowmax::cuda
