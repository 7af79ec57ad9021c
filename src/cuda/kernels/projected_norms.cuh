// From rows W h to tokens, and their gradients back: bias, norm and rounding. A warp has a row; lanes take elements in
// turn, and what they add up is joined as a tree, so that bits depend on nothing else.
#pragma once

#include <cmath>

#include "cuda/kernels/hidden_kernels.hpp"
#include "cuda/kernels/stored_numbers.cuh"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

template <class Number>
__device__ __forceinline__ Number sum_of_lanes(Number x) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x += exchange(x, distance);
    return x;
}

template <class Number>
__device__ __forceinline__ Number largest_of_lanes(Number x) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x = fmax(x, exchange(x, distance));
    return x;
}

/// W h + b: float32 of 16-bit states, float64 of float32 ones.
template <class Stored>
using ProjectedSum = std::conditional_t<std::is_same_v<Stored, float>, double, float>;

/// A row W h + b.
template <class Stored>
class ProjectedRow {
  public:
    using Sum = ProjectedSum<Stored>;

    __device__ __forceinline__ ProjectedRow(const core::ProjectedSums& call, std::int64_t row)
        : sums_(static_cast<const Sum*>(call.sums) + row * call.dim),
          bias_(static_cast<const Stored*>(call.bias)),
          dim_(static_cast<int>(call.dim)) {}

    /// Calls f(element, number) for those of a lane.
    template <class F>
    __device__ __forceinline__ void for_numbers(F f) const {
#pragma unroll 4
        for (int i = static_cast<int>(threadIdx.x % 32); i < dim_; i += 32) {
            f(i, bias_ == nullptr ? sums_[i] : sums_[i] + static_cast<Sum>(widened(bias_[i])));
        }
    }

    /// Of the row * scale, a power of two, without which squares may leave their type's range.
    [[nodiscard]] __device__ __forceinline__ Sum squares(Sum scale) const {
        Sum sum = 0;
        for_numbers([&](int, Sum x) { sum = fma(x * scale, x * scale, sum); });
        return sum_of_lanes(sum);
    }

    [[nodiscard]] __device__ __forceinline__ Sum scale_to_one() const {
        constexpr int most = std::is_same_v<Sum, double> ? 1000 : 126;
        Sum largest = 0;
        for_numbers([&](int, Sum x) { largest = fmax(largest, fabs(x)); });
        largest = largest_of_lanes(largest);
        if (!(largest > 0) || isinf(largest)) return 1;
        const int exponent = -ilogb(largest);
        return scalbn(Sum{1}, exponent > most ? most : (exponent < -most ? -most : exponent));
    }

  private:
    const Sum* sums_;
    const Stored* bias_;
    const int dim_;
};

template <class Sum>
__device__ __forceinline__ bool squares_are_near(Sum squares) {
    constexpr Sum most = std::is_same_v<Sum, double> ? Sum{0x1p800} : Sum{0x1p80F};
    return squares >= 1 / most && squares <= most;
}

template <class Stored, class Token>
__global__ void __launch_bounds__(32 * hidden_row_warps)
    projected_tokens(const __grid_constant__ core::ProjectedSums call) {
    using Sum = ProjectedSum<Stored>;
    const std::int64_t number = std::int64_t{blockIdx.x} * hidden_row_warps + threadIdx.x / 32;
    if (number >= call.count) return;
    const ProjectedRow<Stored> row(call, number);
    Sum scale = 1;
    Sum inverse = 1;
    if (call.normalize) {
        Sum squares = row.squares(scale);
        if (!squares_are_near(squares)) {
            scale = row.scale_to_one();
            squares = row.squares(scale);
        }
        inverse = squares == 0 ? Sum{0} : 1 / sqrt(squares);
        if (call.inverse != nullptr && threadIdx.x % 32 == 0)
            call.inverse[number] = static_cast<float>(scale * inverse);
    }
    auto* tokens = static_cast<Token*>(call.tokens) + number * call.dim;
    row.for_numbers([&](int i, Sum x) { tokens[i] = rounded<Token>(static_cast<float>(x * scale * inverse)); });
}

template <class Stored>
__global__ void __launch_bounds__(32 * hidden_row_warps)
    gradients_through_norm(const __grid_constant__ core::ProjectedGradients call) {
    const std::int64_t number = std::int64_t{blockIdx.x} * hidden_row_warps + threadIdx.x / 32;
    if (number >= call.count) return;
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const auto dim = static_cast<int>(call.dim);
    float* gradient = call.gradients + number * dim;
    const float* token = call.tokens + number * dim;
    float along = 0;
    float inverse = 1;
    if (call.inverse != nullptr) {
        for (int i = lane; i < dim; i += 32) along = fmaf(gradient[i], token[i], along);
        along = sum_of_lanes(along);
        inverse = call.inverse[number];
    }
    auto* to = static_cast<Stored*>(call.rounded);
#pragma unroll 4
    for (int i = lane; i < dim; i += 32) {
        const float x = fmaf(-token[i], along, gradient[i]) * inverse;
        gradient[i] = x;
        if (to != nullptr) to[number * dim + i] = rounded<Stored>(x);
    }
}

template <class Stored>
ProjectionKernels projection_kernels() {
    return {reinterpret_cast<const void*>(&projected_tokens<Stored, float>),
            reinterpret_cast<const void*>(&projected_tokens<Stored, Stored>),
            reinterpret_cast<const void*>(&gradients_through_norm<Stored>)};
}

}  // namespace rowmax::cuda
