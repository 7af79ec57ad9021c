// Gradient rows: each is the sum over its sources of a factor times a token row, added in float32 and written once.
//
// A warp owns consecutive rows and adds up one after the other, eight token rows on their way at a time. Rows with very
// many sources are left to the whole thread block: its warps take runs of 256 in turn, whose sums are then added in
// order. The order of additions is the same either way.
#pragma once

#include <type_traits>

#include "cuda/kernels/backward_plan.hpp"
#include "cuda/kernels/gradient_sources.cuh"
#include "cuda/kernels/row_values.cuh"

namespace rowmax::cuda {

/// Sums of one warp.
template <TokenType Type, bool Vector, class Sources>
class RowSum {
  public:
    using Values = RowValues<Type, Vector>;

    __device__ RowSum(const RowSumArguments& call, Term* terms) : sources_(Sources{call}), terms_(terms) {
        dim_ = static_cast<int>(call.params.dim);
    }

    [[nodiscard]] __device__ GradientRow find(std::int64_t storage_row) const { return sources_.find(storage_row); }

    /// Adds sources skip .. skip + take - 1 of a row to `total`, run by run; `skip` is a multiple of a run. Whether
    /// there was anything to add.
    __device__ bool add(const GradientRow& row, int skip, int take, int first_element, float (&total)[lane_elements]) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        float run[lane_elements] = {};
        int in_run = 0;
        bool any = false;
        int place = 0;
        int held = 0;  // lanes that have a place
        const auto add_held = [&] {
            const Term term = lane < held ? sources_.term(row, place) : Term{};
            any |= ballot(term.row != nullptr) != 0;
            __syncwarp();
            terms_[lane] = term;
            __syncwarp();
            add_terms(held, first_element, run);
            in_run += held;
            held = 0;
            if (in_run < sources_per_run) return;
            close(run, total);
            in_run = 0;
        };
        sources_.segments(row, skip, take, [&](int first, int count) {
            while (count > 0) {
                const int room = 32 - held;  // runs are whole steps
                const int more = count < room ? count : room;
                if (lane >= held && lane < held + more) place = first + lane - held;
                held += more;
                first += more;
                count -= more;
                if (held == 32) add_held();
            }
        });
        if (held > 0) add_held();
        close(run, total);
        return any;
    }

  private:
    static __device__ __forceinline__ void close(float (&run)[lane_elements], float (&total)[lane_elements]) {
#pragma unroll
        for (int i = 0; i < lane_elements; ++i) {
            total[i] += run[i];
            run[i] = 0;
        }
    }

    __device__ __forceinline__ void add_terms(int count, int first_element, float (&run)[lane_elements]) const {
        constexpr int ahead = bytes_of(Type) == 4 ? 4 : 8;
        for (int k = 0; k < count; k += ahead) {
            typename Values::Part parts[ahead];
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                parts[i] = Values::load(terms_[k + i].row, first_element, dim_);
            }
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                const float factor = terms_[k + i].factor;
                float x[lane_elements];
                Values::widened(parts[i], x);
#pragma unroll
                for (int e = 0; e < lane_elements; ++e) run[e] = fmaf(factor, x[e], run[e]);
            }
        }
    }

    Sources sources_;
    Term* terms_;
    int dim_;
};

/// Writes rows of one side's gradient, by whole warps.
template <TokenType Type, bool Vector>
struct RowWriter {
    using Values = RowValues<Type, Vector>;
    const RowSumArguments& call;
    int dim;

    [[nodiscard]] __device__ __forceinline__ std::byte* at(std::int64_t row) const {
        void* all = call.side == Side::queries ? call.gradients.q : call.gradients.d;
        return static_cast<std::byte*>(all) + row * dim * bytes_of(Type);
    }

    __device__ __forceinline__ void zeros(std::int64_t row) const { clear(row, 1); }

    /// Of `count` rows from `first`, those whose bit is not set.
    __device__ __forceinline__ void zeros(std::int64_t first, int count, std::uint32_t set) const {
        int begin = 0;
        while (begin < count) {
            const std::uint32_t rest = set >> begin;
            int run = rest == 0 ? count - begin : __ffs(static_cast<int>(rest)) - 1;
            run = run < count - begin ? run : count - begin;
            clear(first + begin, run);
            begin += run + 1;
        }
    }

    __device__ __forceinline__ void one(std::int64_t row, int element, float value) const {
        if (element >= dim) return;
        if constexpr (bytes_of(Type) == 4) {
            reinterpret_cast<float*>(at(row))[element] = value;
        } else {
            reinterpret_cast<std::uint16_t*>(at(row))[element] = static_cast<std::uint16_t>(narrow_two<Type>(value, 0));
        }
    }

    /// A sum in shared memory, on its way back through x / |x|: (g - (g . u) u) / |x|.
    __device__ void through_norm(std::int64_t row, const float* sum) const {
        const std::byte* token = storage_row(call.side == Side::queries ? call.params.q : call.params.d, row);
        const float scale = scale_of_row<Type, Vector>(token, dim);
        if (scale == 0) return zeros(row);
        float squares = 0;
        float along = 0;
        for (int first = 0; first < dim; first += slice_elements) {
            float x[lane_elements];
            float gradient[lane_elements];
            both(token, scale, sum, first, x, gradient);
#pragma unroll
            for (int i = 0; i < lane_elements; ++i) {
                squares = fmaf(x[i], x[i], squares);
                along = fmaf(gradient[i], x[i], along);
            }
        }
        squares = sum_of_warp(squares);
        const float share = sum_of_warp(along) / squares;
        const float inverse = 1.0F / sqrtf(squares);
        for (int first = 0; first < dim; first += slice_elements) {
            float x[lane_elements];
            float gradient[lane_elements];
            both(token, scale, sum, first, x, gradient);
#pragma unroll
            for (int i = 0; i < lane_elements; ++i) gradient[i] = (gradient[i] - share * x[i]) * inverse * scale;
            Values::store(gradient, at(row), first, dim);
        }
    }

  private:
    /// Rows lie one behind the other.
    __device__ __forceinline__ void clear(std::int64_t first, int rows) const {
        const int lane = static_cast<int>(threadIdx.x % 32);
        const std::int64_t count = std::int64_t{rows} * dim;
        if constexpr (Vector) {
            using Four = std::conditional_t<bytes_of(Type) == 4, uint4, uint2>;
            auto* to = reinterpret_cast<Four*>(at(first));
            for (std::int64_t i = lane; i < count / lane_elements; i += 32) to[i] = Four{};
        } else {
            using One = std::conditional_t<bytes_of(Type) == 4, std::uint32_t, std::uint16_t>;
            auto* to = reinterpret_cast<One*>(at(first));
            for (std::int64_t i = lane; i < count; i += 32) to[i] = One{};
        }
    }

    __device__ __forceinline__ void read(const float* sum, int first, float (&to)[lane_elements]) const {
#pragma unroll
        for (int i = 0; i < lane_elements; ++i) {
            const int e = first + Values::element(i);
            to[i] = e < dim ? sum[e] : 0.0F;
        }
    }

    __device__ __forceinline__ void both(const std::byte* token, float scale, const float* sum, int first,
                                         float (&x)[lane_elements], float (&gradient)[lane_elements]) const {
        Values::widened(Values::load(token, first, dim), x);
#pragma unroll
        for (float& value : x) value *= scale;
        read(sum, first, gradient);
    }
};

/// Writes a sum of directions as the gradient of their tokens. By one warp.
template <TokenType Type, bool Vector>
__device__ __forceinline__ void finish(const RowSumArguments& call, std::int64_t number, bool any, const float* sum) {
    const RowWriter<Type, Vector> writer{call, static_cast<int>(call.params.dim)};
    if (any) {
        writer.through_norm(number, sum);
    } else {
        writer.zeros(number);  // a hidden token may hold anything
    }
}

/// A row that one warp adds up.
template <TokenType Type, bool Vector, class Sources>
__device__ __forceinline__ void sum_alone(const RowSumArguments& call, RowSum<Type, Vector, Sources>& sums,
                                          const GradientRow& row, std::int64_t number, float* held) {
    using Values = RowValues<Type, Vector>;
    const RowWriter<Type, Vector> writer{call, static_cast<int>(call.params.dim)};
    bool any = false;
    for (int first = 0; first < writer.dim; first += slice_elements) {
        float total[lane_elements] = {};
        any = sums.add(row, 0, row.count, first, total);
        if (call.params.normalize) {
#pragma unroll
            for (int i = 0; i < lane_elements; ++i) {
                if (first + Values::element(i) < writer.dim) held[first + Values::element(i)] = total[i];
            }
        } else {
            Values::store(total, writer.at(number), first, writer.dim);
        }
    }
    if (!call.params.normalize) return;
    __syncwarp();
    finish<Type, Vector>(call, number, any, held);
    __syncwarp();
}

/// The rows of a thread block.
struct BlockRows {
    GradientRow rows[32 * row_sum_warps];
    std::int16_t alone[32 * row_sum_warps];   ///< rows of one run
    std::int16_t shared[32 * row_sum_warps];  ///< rows whose runs warps share
    int alone_count;
    int alone_next;
    int shared_count;
    int shared_runs;
    int ends[row_sum_warps];  ///< the row that a warp's run is the last of; -1: it goes on

    /// Of a row that is listed.
    [[nodiscard]] __device__ __forceinline__ int runs(int listed) const {
        return (rows[shared[listed]].count + sources_per_run - 1) / sources_per_run;
    }
};

/// Rows of several runs, from the one listed at `from`: warps take runs of all of them in turn, threads add the sums in
/// order, an element each. With normalize it is a single row, which is kept in `held`. Whether there was anything to
/// add.
template <TokenType Type, bool Vector, class Sources>
__device__ __forceinline__ bool sum_shared(const RowSumArguments& call, RowSum<Type, Vector, Sources>& sums,
                                           BlockRows& block, int from, int runs, std::int64_t block_first, float* parts,
                                           float* held) {
    using Values = RowValues<Type, Vector>;
    const RowWriter<Type, Vector> writer{call, static_cast<int>(call.params.dim)};
    const auto warp = static_cast<int>(threadIdx.x / 32);
    const auto warps = static_cast<int>(blockDim.x / 32);
    const auto thread = static_cast<int>(threadIdx.x);
    bool any = false;
    for (int first = 0; first < writer.dim; first += slice_elements) {
        int listed = from;  // the row that this warp's run belongs to
        int before = 0;     // runs of rows before it
        float total = 0;
        for (int round = 0; round < runs; round += warps) {
            const int task = round + warp;
            if (task < runs) {
                for (int n = block.runs(listed); task >= before + n; n = block.runs(++listed)) before += n;
                float sum[lane_elements] = {};
                any |= sums.add(block.rows[block.shared[listed]], (task - before) * sources_per_run, sources_per_run,
                                first, sum);
#pragma unroll
                for (int i = 0; i < lane_elements; ++i) parts[warp * slice_elements + Values::element(i)] = sum[i];
                if (thread % 32 == 0)
                    block.ends[warp] = task + 1 == before + block.runs(listed) ? block.shared[listed] : -1;
            }
            __syncthreads();
            if (thread < slice_elements) {
                for (int w = 0; w < warps && round + w < runs; ++w) {
                    total += parts[w * slice_elements + thread];
                    if (block.ends[w] < 0) continue;
                    if (call.params.normalize) {
                        if (first + thread < writer.dim) held[first + thread] = total;
                    } else {
                        writer.one(block_first + block.ends[w], first + thread, total);
                    }
                    total = 0;
                }
            }
            __syncthreads();
        }
    }
    return any;
}

/// Finds the rows of a thread block, clears those that nothing adds to, and lists the others.
template <TokenType Type, bool Vector, class Sources>
__device__ __forceinline__ void find_rows(const RowSumArguments& call, const RowSum<Type, Vector, Sources>& sums,
                                          BlockRows& block, std::int64_t block_first) {
    const RowWriter<Type, Vector> writer{call, static_cast<int>(call.params.dim)};
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % 32;
    const std::int64_t total = call.side == Side::queries ? call.params.q.total_rows : call.params.d.total_rows;
    const std::int64_t left = total - block_first;
    const int own = left < call.rows_per_block ? static_cast<int>(left) : call.rows_per_block;
    if (thread == 0) {
        block.alone_count = block.alone_next = block.shared_count = 0;
        block.shared_runs = 0;
    }
    __syncthreads();
    int count = 0;
    if (thread < own) {
        block.rows[thread] = sums.find(block_first + thread);
        count = block.rows[thread].count;
        if (count > call.alone) {
            block.shared[atomicAdd(&block.shared_count, 1)] = static_cast<std::int16_t>(thread);
            atomicAdd(&block.shared_runs, (count + sources_per_run - 1) / sources_per_run);
        } else if (count > 0) {
            block.alone[atomicAdd(&block.alone_count, 1)] = static_cast<std::int16_t>(thread);
        }
    }
    const std::uint32_t full = ballot(count > 0);
    const int first = thread - lane;
    const int mine = own - first < 32 ? own - first : 32;
    if (mine > 0) writer.zeros(block_first + first, mine, full);
    __syncthreads();
}

/// Thread blocks a multiprocessor; more registers where a row's numbers take more.
template <TokenType Type, bool Vector>
inline constexpr int row_sum_blocks_of = Vector&& bytes_of(Type) == 2 ? row_sum_blocks_each : row_sum_blocks_each - 1;

template <TokenType Type, bool Vector, class Sources>
__global__ void __launch_bounds__(32 * row_sum_warps, row_sum_blocks_of<Type, Vector>)
    row_sums(const __grid_constant__ RowSumArguments call) {
    extern __shared__ float shared[];  // a slice of each warp, then with normalize a row of each warp
    __shared__ Term terms[row_sum_warps][32];
    __shared__ BlockRows block;
    const auto warp = static_cast<int>(threadIdx.x / 32);
    const auto warps = static_cast<int>(blockDim.x / 32);
    const std::int64_t block_first = std::int64_t{blockIdx.x} * call.rows_per_block;
    float* held = shared + warps * slice_elements;
    RowSum<Type, Vector, Sources> sums(call, terms[warp]);
    find_rows<Type, Vector>(call, sums, block, block_first);
    // Which warp takes which row changes no bit.
    for (;;) {
        int next = 0;
        if (threadIdx.x % 32 == 0) next = atomicAdd(&block.alone_next, 1);
        next = from_lane(next, 0);
        if (next >= block.alone_count) break;
        const int row = block.alone[next];
        sum_alone<Type, Vector>(call, sums, block.rows[row], block_first + row, held + warp * call.params.dim);
    }
    __syncthreads();
    for (int i = 0; i < block.shared_count; ++i) {
        const int runs = call.params.normalize ? block.runs(i) : block.shared_runs;
        const bool any = sum_shared<Type, Vector>(call, sums, block, i, runs, block_first, shared, held);
        if (!call.params.normalize) return;
        const bool of_any_warp = __syncthreads_or(any ? 1 : 0) != 0;
        if (warp == 0) finish<Type, Vector>(call, block_first + block.shared[i], of_any_warp, held);
        __syncthreads();
    }
}

}  // namespace rowmax::cuda
