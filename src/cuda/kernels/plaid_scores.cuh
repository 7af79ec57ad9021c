// Approximate scores: every document token stands for its centroid, whose scores are rows of a table in L2.
//
// A warp takes a document and 32 query tokens at a time. Four tokens of float32 to a lane: eight lanes read a row, a
// warp four of them at once, and what the lanes of a query token found is joined at the end.
#pragma once

#include "cuda/kernels/maximum.cuh"
#include "cuda/kernels/plaid_arguments.hpp"
#include "cuda/kernels/residual_values.cuh"

namespace rowmax::cuda {

/// Query tokens that a warp takes at once.
inline constexpr int plaid_slab = 32;

template <int Each>
class ApproximateScore {
  public:
    __device__ __forceinline__ ApproximateScore(const ApproximateArguments& call, const core::CodeRuns::Run& run)
        : call_(call), run_(run) {}

    __device__ __forceinline__ float score() {
        double total = 0;
        for (int first = 0; first < call_.table.tokens; first += plaid_slab) {
            scan(first);
            total = add_groups(first, total);
        }
        if (run_.count == 0) return 0;
        return found_ ? static_cast<float>(total) : minus_infinity;
    }

  private:
    static constexpr int lanes_of_row = plaid_slab / Each;
    static constexpr int rows = 32 / lanes_of_row;  ///< read at once

    __device__ __forceinline__ std::int64_t code_at(std::int64_t token) const {
        const core::CodeRuns& documents = call_.documents;
        const std::int64_t at = run_.first + token * documents.code_stride;
        return core::detail::clamp(core::detail::read_int(documents.codes, documents.wide_codes, at), 0,
                                   call_.table.centroids - 1);
    }

    /// The maxima of query tokens first .. first + 31. Codes are read 32 at a time, a step ahead.
    __device__ __forceinline__ void scan(int first) {
#pragma unroll
        for (float& b : best_) b = minus_infinity;
        int code = own_code(0);
        for (std::int64_t base = 0; base < run_.count; base += 32) {
            const int next = own_code(base + 32);
            const int left = run_.count - base < 32 ? static_cast<int>(run_.count - base) : 32;
#pragma unroll 8
            for (int i = 0; i < 32; i += rows) {
                if (i >= left) break;
                const int at = i + lane_ / lanes_of_row;
                const int centroid = from_lane(code, at < left ? at : left - 1);
                take(centroid, first);
            }
            code = next;
        }
    }

    __device__ __forceinline__ int own_code(std::int64_t base) const {
        const std::int64_t token = base + lane_;
        return token < run_.count ? static_cast<int>(code_at(token)) : 0;
    }

    __device__ __forceinline__ void take(int centroid, int first) {
        if (call_.kept != nullptr && call_.kept[centroid] == 0) return;
        found_ = true;
        const int token = first + lane_ % lanes_of_row * Each;
        const std::int64_t row = centroid * call_.table.centroid_stride;
        if constexpr (Each == 4) {
            if (token >= call_.table.tokens) return;
            const float4 four =
                __ldg(reinterpret_cast<const float4*>(static_cast<const float*>(call_.table.data) + row + token));
            best_[0] = max_or_nan(best_[0], four.x);
            best_[1] = max_or_nan(best_[1], four.y);
            best_[2] = max_or_nan(best_[2], four.z);
            best_[3] = max_or_nan(best_[3], four.w);
        } else {
            if (token >= call_.table.tokens) return;
            const float value = element_of(static_cast<const std::byte*>(call_.table.data), call_.table.dtype,
                                           row + token * call_.table.token_stride);
            best_[0] = max_or_nan(best_[0], value);
        }
    }

    /// Sums of 16 tokens as everywhere (docs/numerics.md), in order, added to what the tokens before gave.
    __device__ __forceinline__ double add_groups(int first, double total) {
#pragma unroll
        for (int distance = lanes_of_row; distance < 32; distance *= 2) {
#pragma unroll
            for (float& b : best_) b = max_or_nan(b, exchange(b, distance));
            found_ = exchange(static_cast<int>(found_), distance) != 0 || found_;
        }
        float oct = 0;
        if constexpr (Each == 4) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const bool there = first + lane_ % lanes_of_row * 4 + i < call_.table.tokens;
                best_[i] = there ? best_[i] : 0.0F;
                best_[i] += exchange(best_[i], 1);
            }
            oct = (best_[0] + best_[2]) + (best_[1] + best_[3]);
        } else {
            oct = sum_of_oct<1>(first + lane_ < call_.table.tokens ? best_[0] : 0.0F);
        }
        constexpr int lanes_of_oct = rows_of_oct / Each;
        const float group = oct + exchange(oct, lanes_of_oct);
        total += static_cast<double>(from_lane(group, 0));
        if (first + rows_of_group < call_.table.tokens)
            total += static_cast<double>(from_lane(group, 2 * lanes_of_oct));
        return total;
    }

    const ApproximateArguments& call_;
    core::CodeRuns::Run run_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    float best_[Each];
    bool found_ = false;
};

template <int Each>
__global__ void __launch_bounds__(plaid_threads) approximate(const __grid_constant__ ApproximateArguments call) {
    const std::int64_t document = (std::int64_t{blockIdx.x} * plaid_threads + threadIdx.x) / 32;
    if (document >= call.documents.count) return;
    const float score = ApproximateScore<Each>(call, call.documents.run(document)).score();
    if (threadIdx.x % 32 == 0) call.scores[document] = score;
}

/// A warp a centroid.
__global__ void __launch_bounds__(plaid_threads) keep_centroids(const __grid_constant__ ApproximateArguments call) {
    const std::int64_t centroid = (std::int64_t{blockIdx.x} * plaid_threads + threadIdx.x) / 32;
    if (centroid >= call.table.centroids) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    bool reaches = false;
    for (std::int64_t s = lane; s < call.table.tokens; s += 32) {
        const float score = element_of(static_cast<const std::byte*>(call.table.data), call.table.dtype,
                                       centroid * call.table.centroid_stride + s * call.table.token_stride);
        reaches = reaches || !(score < call.threshold);
    }
    const bool any = ballot(reaches) != 0;
    if (lane == 0) const_cast<std::uint8_t*>(call.kept)[centroid] = any ? 1 : 0;
}

/// Tiles of 32 x 32 by way of shared memory.
__global__ void __launch_bounds__(32 * 8) transpose_scores(const __grid_constant__ TransposeArguments call) {
    __shared__ float tile[32][33];
    const int column = static_cast<int>(threadIdx.x % 32);
    const std::int64_t tiles = (call.table.tokens + 31) / 32;
    const std::int64_t centroid = blockIdx.x / tiles * 32;
    const std::int64_t token = blockIdx.x % tiles * 32;
    for (int row = static_cast<int>(threadIdx.x / 32); row < 32; row += 8) {
        if (centroid + row >= call.table.centroids || token + column >= call.table.tokens) continue;
        tile[row][column] =
            element_of(static_cast<const std::byte*>(call.table.data), call.table.dtype,
                       (centroid + row) * call.table.centroid_stride + (token + column) * call.table.token_stride);
    }
    __syncthreads();
    for (int row = static_cast<int>(threadIdx.x / 32); row < 32; row += 8) {
        if (token + row >= call.table.tokens || centroid + column >= call.table.centroids) continue;
        call.to[(token + row) * call.table.centroids + centroid + column] = tile[column][row];
    }
}

}  // namespace rowmax::cuda
