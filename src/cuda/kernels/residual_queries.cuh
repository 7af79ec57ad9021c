// Query rows in shared memory for residual documents: float16, in the order of dimensions of residual_slot(), each row
// 16 bytes longer than it must be, so that eight rows meet no bank twice. What float16 does not hold lies in a second
// plane behind the first.
#pragma once

#include "cuda/kernels/half_parts.cuh"
#include "cuda/kernels/residual_values.cuh"
#include "cuda/kernels/scores.cuh"

namespace rowmax::cuda {

struct ResidualQueryRow {
    const std::byte* data = nullptr;
    RowPlace place;
    float inverse_scale = 1;  ///< the row in shared memory times this is the query's
    float inverse_norm = 1;   ///< with normalize
    bool finite = true;
};

/// One over the norm of a query row, by a warp. Out of line: hardly anybody asks for it.
inline __device__ __noinline__ float inverse_norm_of_query(const ResidualArguments& call, const std::byte* data) {
    const auto dim = static_cast<int>(call.call.params.dim);
    const int lane = static_cast<int>(threadIdx.x % 32);
    float largest = 0;
    for (int at = lane; at < dim; at += 32) largest = fmaxf(largest, fabsf(query_number(call, data, at)));
    largest = largest_of_warp(largest);
    if (largest == 0) return 0;
    const float scale = largest < __builtin_huge_valf() ? power_of_two(-ilogbf(largest)) : 1.0F;
    float sum = 0;
    for (int at = lane; at < dim; at += 32) {
        const float value = query_number(call, data, at) * scale;
        sum = fmaf(value, value, sum);
    }
    return inverse_root(sum_of_warp(sum)) * scale;
}

/// One row, by a warp.
template <int Bits>
class ResidualQueryLoader {
  public:
    __device__ __forceinline__ ResidualQueryLoader(const ResidualArguments& call, std::byte* to, int rows)
        : call_(call),
          to_(to),
          dim_(static_cast<int>(call.call.params.dim)),
          plane_(rows * residual_query_bytes(dim_)) {}

    /// Rows number, number + step, ..., `Together` of them: their loads are under way together.
    template <int Together>
    __device__ __forceinline__ void load(const Unit& unit, int number, int step, ResidualQueryRow* rows) const {
        Row row[Together];
        const std::byte* data[Together];
        float largest[Together];
#pragma unroll
        for (int i = 0; i < Together; ++i) {
            row[i] = row_of(call_.call.params, call_.call.plan, unit, number + i * step);
            data[i] = row[i].segment.data + row[i].position * call_.call.params.q.row_stride;
            largest[i] = 0;
        }
        float x[Together][4];
        for (int first = 0; first < dim_ && call_.query_parts == 2; first += slice_elements) {
            read(row, data, first, x);
#pragma unroll
            for (int i = 0; i < Together; ++i) {
#pragma unroll
                for (const float value : x[i]) largest[i] = fmaxf(largest[i], fabsf(value));
            }
        }
        float scale[Together];
#pragma unroll
        for (int i = 0; i < Together; ++i) {
            scale[i] = call_.query_parts == 2 ? scale_for_parts(largest_of_warp(largest[i])) : 1.0F;
        }
        bool finite[Together];
#pragma unroll
        for (bool& all : finite) all = true;
        for (int first = 0; first < residual_row(dim_); first += slice_elements) {
            read(row, data, first, x);
#pragma unroll
            for (int i = 0; i < Together; ++i) {
                write(number + i * step, first, x[i], scale[i]);
#pragma unroll
                for (const float value : x[i]) finite[i] = finite[i] && fabsf(value) < __builtin_huge_valf();
            }
        }
#pragma unroll
        for (int i = 0; i < Together; ++i) {
            const float norm =
                call_.call.params.normalize && row[i].kept ? inverse_norm_of_query(call_, data[i]) : 1.0F;
            const bool all_finite = ballot(!finite[i]) == 0;
            if (threadIdx.x % 32 == 0) {
                rows[number + i * step] = {data[i], place_of(call_.call, unit, row[i]), 1.0F / scale[i], norm,
                                           all_finite};
            }
        }
    }

  private:
    static __device__ __forceinline__ int element(int i) {
        return static_cast<int>(threadIdx.x % 32) + 32 * i;
    }

    template <int Together>
    __device__ __forceinline__ void read(const Row (&row)[Together], const std::byte* const (&data)[Together],
                                         int first, float (&x)[Together][4]) const {
#pragma unroll
        for (int i = 0; i < Together; ++i) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int at = first + element(k);
                x[i][k] = row[i].kept && at < dim_ ? query_number(call_, data[i], at) : 0.0F;
            }
        }
    }

    __device__ __forceinline__ void write(int number, int first, const float (&x)[4], float scale) const {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int at = first + element(k);
            if (at >= residual_row(dim_)) continue;
            const int place =
                at / residual_lane_dims * residual_lane_dims + residual_slot(Bits, at % residual_lane_dims);
            std::byte* to = to_ + number * residual_query_bytes(dim_) + place * 2;
            const HalfParts parts = half_parts(x[k] * scale);
            *reinterpret_cast<__half*>(to) = parts.high;
            if (call_.query_parts == 2) *reinterpret_cast<__half*>(to + plane_) = parts.low;
        }
    }

    const ResidualArguments& call_;
    std::byte* to_;
    int dim_;
    std::int64_t plane_;
};

}  // namespace rowmax::cuda
