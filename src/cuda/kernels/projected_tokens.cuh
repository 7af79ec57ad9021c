// From sums of products to tokens, in the registers in which wgmma left them: bias, norm, rounding to the tokens' type.
//
// Of a warp's 16 rows of 128 numbers, a lane holds two, l / 4 and that + 8, with three others: of every 8 columns 2 (l
// % 4) and the next, elements 4 j, 4 j + 1 of its first row and 4 j + 2, 4 j + 3 of its second. Rounded, four words in
// turn are what wgmma takes as 16 products of its rows.
#pragma once

#include <cstdint>

#include "cuda/kernels/projected_arguments.hpp"
#include "cuda/kernels/row_norm.cuh"

namespace rowmax::cuda {

/// Of 16 products, each four words of a thread.
inline constexpr int projected_products = projected_dim_most / 16;
using TokenWords = std::uint32_t[projected_products][4];

/// The two numbers of a thread that belong to its two rows.
struct OfRows {
    float first;
    float second;
};

__device__ __forceinline__ float sum_of_quad(float x) {
    x += exchange(x, 1);
    return x + exchange(x, 2);
}
__device__ __forceinline__ float largest_of_quad(float x) {
    x = fmaxf(x, exchange(x, 1));
    return fmaxf(x, exchange(x, 2));
}

/// `bias` has 128 numbers, in shared memory.
__device__ __forceinline__ void add_bias(float (&sums)[64], const float* bias) {
    const auto column = static_cast<int>(threadIdx.x % 4) * 2;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        const float2 two = *reinterpret_cast<const float2*>(bias + 8 * j + column);
        sums[4 * j] += two.x;
        sums[4 * j + 1] += two.y;
        sums[4 * j + 2] += two.x;
        sums[4 * j + 3] += two.y;
    }
}

__device__ __forceinline__ OfRows squares_of_rows(const float (&sums)[64]) {
    float first[2] = {};
    float second[2] = {};
#pragma unroll
    for (int j = 0; j < 16; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            first[i] = fmaf(sums[4 * j + i], sums[4 * j + i], first[i]);
            second[i] = fmaf(sums[4 * j + 2 + i], sums[4 * j + 2 + i], second[i]);
        }
    }
    return {sum_of_quad(first[0] + first[1]), sum_of_quad(second[0] + second[1])};
}

/// Squares that leave float32's range, or come near: such rows are scaled by a power of two first.
__device__ __forceinline__ bool is_far(float squares) {
    return !(squares >= 0x1p-80F && squares <= 0x1p80F);
}

__device__ __forceinline__ float scale_to_one(float largest) {
    return largest > 0 && largest < __builtin_huge_valf() ? power_of_two(-ilogbf(largest)) : 1.0F;
}

__device__ __forceinline__ void scale_far_rows(float (&sums)[64], const OfRows& squares) {
    float first = 0;
    float second = 0;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        first = fmaxf(first, fmaxf(fabsf(sums[4 * j]), fabsf(sums[4 * j + 1])));
        second = fmaxf(second, fmaxf(fabsf(sums[4 * j + 2]), fabsf(sums[4 * j + 3])));
    }
    // All lanes exchange, also those whose rows are not far.
    first = scale_to_one(largest_of_quad(first));
    second = scale_to_one(largest_of_quad(second));
    if (!is_far(squares.first)) first = 1;
    if (!is_far(squares.second)) second = 1;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        sums[4 * j] *= first;
        sums[4 * j + 1] *= first;
        sums[4 * j + 2] *= second;
        sums[4 * j + 3] *= second;
    }
}

/// Within two units of the last place, which is nothing beside the tokens' rounding.
__device__ __forceinline__ float quick_inverse_root(float sum) {
    return sum == 0 ? 0.0F : rsqrtf(sum);
}

/// One over the norms; rows may be scaled.
__device__ __forceinline__ OfRows inverse_norms_of(float (&sums)[64]) {
    OfRows squares = squares_of_rows(sums);
    if (ballot(is_far(squares.first) || is_far(squares.second)) != 0) {
        scale_far_rows(sums, squares);
        squares = squares_of_rows(sums);
    }
    return {quick_inverse_root(squares.first), quick_inverse_root(squares.second)};
}

template <TokenType Type>
__device__ __forceinline__ void round_tokens(float (&sums)[64], const float* bias, bool normalize, TokenWords& tokens) {
    if (bias != nullptr) add_bias(sums, bias);
    OfRows inverse{1, 1};
    if (normalize) inverse = inverse_norms_of(sums);
#pragma unroll
    for (int w = 0; w < 4 * projected_products; ++w) {
        const float factor = w % 2 == 0 ? inverse.first : inverse.second;
        tokens[w / 4][w % 4] = narrow_two<Type>(sums[2 * w] * factor, sums[2 * w + 1] * factor);
    }
}

}  // namespace rowmax::cuda
