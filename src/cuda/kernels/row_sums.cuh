// Gradient rows: each is the sum over its sources of a factor times a token row, added in float32 and written once.
//
// A warp owns consecutive rows and adds up one after the other, eight token rows on their way at a time. Rows with very
// many sources are left to the whole thread block: its warps take runs of 256 in turn, whose sums are then added in
// order. The order of additions is the same either way.
#pragma once

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

    [[nodiscard]] __device__ Row find(std::int64_t storage_row) const { return sources_.find(storage_row); }

    /// Adds sources skip .. skip + take - 1 of a row to `total`, run by run; `skip` is a multiple of a run. Whether
    /// there was anything to add.
    __device__ bool add(const Row& row, std::int64_t skip, std::int64_t take, int first_element,
                        float (&total)[lane_elements]) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        float run[lane_elements] = {};
        int in_run = 0;
        bool any = false;
        sources_.segments(row, skip, take, [&](std::int64_t first, std::int64_t count) {
            while (count > 0) {
                const std::int64_t most = sources_per_run - in_run < 32 ? sources_per_run - in_run : 32;
                const int step = static_cast<int>(count < most ? count : most);
                const Term term = lane < step ? sources_.term(row, first + lane) : Term{};
                any |= ballot(term.row != nullptr) != 0;
                __syncwarp();
                terms_[lane] = term;
                __syncwarp();
                add_terms(step, first_element, run);
                in_run += step;
                if (in_run == sources_per_run) {
                    close(run, total);
                    in_run = 0;
                }
                first += step;
                count -= step;
            }
        });
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
            float factors[ahead];
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                const Term term = terms_[k + i];
                factors[i] = term.factor;
                parts[i] = Values::load(term.row, first_element, dim_);
            }
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                float x[lane_elements];
                Values::widened(parts[i], x);
#pragma unroll
                for (int e = 0; e < lane_elements; ++e) run[e] = fmaf(factors[i], x[e], run[e]);
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

    __device__ __forceinline__ void zeros(std::int64_t row) const {
        const float none[lane_elements] = {};
        for (int first = 0; first < dim; first += slice_elements) Values::store(none, at(row), first, dim);
    }

    /// A sum in shared memory.
    __device__ void plain(std::int64_t row, const float* sum) const {
        for (int first = 0; first < dim; first += slice_elements) {
            float values[lane_elements];
            read(sum, first, values);
            Values::store(values, at(row), first, dim);
        }
    }

    /// The same, on its way back through x / |x|: (g - (g . u) u) / |x|.
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

/// A row that one warp adds up.
template <TokenType Type, bool Vector, class Sources>
__device__ __forceinline__ void sum_alone(const RowSumArguments& call, RowSum<Type, Vector, Sources>& sums,
                                          const Row& row, std::int64_t number, float* held) {
    using Values = RowValues<Type, Vector>;
    const RowWriter<Type, Vector> writer{call, static_cast<int>(call.params.dim)};
    if (row.count == 0) return writer.zeros(number);
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
    if (any) {
        writer.through_norm(number, held);
    } else {
        writer.zeros(number);  // a hidden token may hold anything
    }
    __syncwarp();
}

/// A row that all warps of a thread block add up; `parts` holds a slice for each.
template <TokenType Type, bool Vector, class Sources>
__device__ void sum_together(const RowSumArguments& call, RowSum<Type, Vector, Sources>& sums, const Row& row,
                             std::int64_t number, float* parts, float* held) {
    using Values = RowValues<Type, Vector>;
    const RowWriter<Type, Vector> writer{call, static_cast<int>(call.params.dim)};
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int warps = static_cast<int>(blockDim.x / 32);
    const auto thread = static_cast<int>(threadIdx.x);
    const std::int64_t runs = (row.count + sources_per_run - 1) / sources_per_run;
    bool any = false;
    for (int first = 0; first < writer.dim; first += slice_elements) {
        float total = 0;
        for (std::int64_t round = 0; round < runs; round += warps) {
            if (round + warp < runs) {
                float sum[lane_elements] = {};
                any |= sums.add(row, (round + warp) * sources_per_run, sources_per_run, first, sum);
#pragma unroll
                for (int i = 0; i < lane_elements; ++i) parts[warp * slice_elements + Values::element(i)] = sum[i];
            }
            __syncthreads();
            if (thread < slice_elements) {
                for (int w = 0; w < warps && round + w < runs; ++w) total += parts[w * slice_elements + thread];
            }
            __syncthreads();
        }
        if (thread < slice_elements && first + thread < writer.dim) held[first + thread] = total;
    }
    const bool all_any = __syncthreads_or(any ? 1 : 0) != 0;
    if (warp == 0) {
        if (!call.params.normalize) {
            writer.plain(number, held);
        } else if (all_any) {
            writer.through_norm(number, held);
        } else {
            writer.zeros(number);
        }
    }
    __syncthreads();
}

template <TokenType Type, bool Vector, class Sources>
__global__ void __launch_bounds__(32 * row_sum_warps, row_sum_blocks_each)
    row_sums(const __grid_constant__ RowSumArguments call) {
    extern __shared__ float shared[];  // a slice of each warp, then rows: one, or with normalize one of each warp
    __shared__ Row rows[row_sum_warps][32];
    __shared__ Term terms[row_sum_warps][32];
    __shared__ std::int16_t left[row_sum_warps * 32];  // rows that are added up together
    __shared__ int left_count;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int warps = static_cast<int>(blockDim.x / 32);
    const std::int64_t total = call.side == Side::queries ? call.params.q.total_rows : call.params.d.total_rows;
    const std::int64_t block_first = std::int64_t{blockIdx.x} * warps * call.rows_per_warp;
    const std::int64_t first = block_first + warp * call.rows_per_warp;
    float* held = shared + warps * slice_elements;
    float* mine = held + (call.params.normalize ? warp * call.params.dim : 0);
    RowSum<Type, Vector, Sources> sums(call, terms[warp]);
    if (threadIdx.x == 0) left_count = 0;
    if (lane < call.rows_per_warp && first + lane < total) rows[warp][lane] = sums.find(first + lane);
    __syncthreads();
    for (int r = 0; r < call.rows_per_warp && first + r < total; ++r) {
        const Row row = rows[warp][r];
        if (row.count <= call.alone) {
            sum_alone<Type, Vector>(call, sums, row, first + r, mine);
        } else if (lane == 0) {
            left[atomicAdd(&left_count, 1)] = static_cast<std::int16_t>(warp * 32 + r);
        }
    }
    __syncthreads();
    for (int i = 0; i < left_count; ++i) {
        const int w = left[i] / 32;
        const int r = left[i] % 32;
        sum_together<Type, Vector>(call, sums, rows[w][r], block_first + w * call.rows_per_warp + r, shared, held);
    }
}

}  // namespace rowmax::cuda
