// Single token rows in global memory: pieces of 16 bytes whatever their alignment, and norms.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

template <TokenType Type>
inline constexpr int elements_of_piece = 16 / bytes_of(Type);

/// Elements [element, element + 16 bytes) of a row of `dim` elements; zeros beyond it.
template <TokenType Type>
__device__ __forceinline__ uint4 read_piece(const std::byte* row, std::int64_t element, std::int64_t dim, bool by_16) {
    constexpr int count = elements_of_piece<Type>;
    const std::byte* at = row + element * bytes_of(Type);
    if (by_16 && element + count <= dim) return *reinterpret_cast<const uint4*>(at);
    std::uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < count; ++i) {
        if (element + i >= dim) continue;
        if constexpr (Type == TokenType::f32) {
            words[i] = reinterpret_cast<const std::uint32_t*>(at)[i];
        } else {
            words[i / 2] |= static_cast<std::uint32_t>(reinterpret_cast<const std::uint16_t*>(at)[i]) << (i % 2 * 16);
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/// The elements of a piece as floats.
template <TokenType Type>
__device__ __forceinline__ void widen(const uint4& piece, float (&to)[elements_of_piece<Type>]) {
    const std::uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (Type == TokenType::f32) {
            to[i] = __uint_as_float(words[i]);
        } else if constexpr (Type == TokenType::bf16) {
            to[2 * i] = __uint_as_float(words[i] << 16);
            to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
        } else {
            to[2 * i] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] & 0xffffU)));
            to[2 * i + 1] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] >> 16)));
        }
    }
}

/// The inverse of widen; exact for values that the type holds.
template <TokenType Type>
__device__ __forceinline__ uint4 narrow(const float (&from)[elements_of_piece<Type>]) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (Type == TokenType::f32) {
            words[i] = __float_as_uint(from[i]);
        } else if constexpr (Type == TokenType::bf16) {
            words[i] = __bfloat16_as_ushort(__float2bfloat16_rn(from[2 * i])) |
                       (static_cast<std::uint32_t>(__bfloat16_as_ushort(__float2bfloat16_rn(from[2 * i + 1]))) << 16);
        } else {
            words[i] = __half_as_ushort(__float2half_rn(from[2 * i])) |
                       (static_cast<std::uint32_t>(__half_as_ushort(__float2half_rn(from[2 * i + 1]))) << 16);
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/// Similarities are taken of row * scale, a power of two, and multiplied by `inverse`, one over the norm of that.
struct Norm {
    float scale = 1;
    float inverse = 0;
};

/// Squares are added in eight chains, by position in the piece, and the chains as a tree: always the same order.
class SumOfSquares {
  public:
    template <TokenType Type>
    __device__ __forceinline__ void add(const float (&values)[elements_of_piece<Type>]) {
#pragma unroll
        for (int i = 0; i < elements_of_piece<Type>; ++i) chain_[i] = fmaf(values[i], values[i], chain_[i]);
    }
    [[nodiscard]] __device__ __forceinline__ float inverse_root() const {
        const float sum =
            ((chain_[0] + chain_[4]) + (chain_[2] + chain_[6])) + ((chain_[1] + chain_[5]) + (chain_[3] + chain_[7]));
        return sum == 0 ? 0.0F : 1.0F / sqrtf(sum);
    }

  private:
    float chain_[8] = {};
};

/// Rows far from magnitude 1, which only the wide types hold, are scaled by a power of two, so that neither their
/// squares nor their products leave float32; others are not.
template <TokenType Type>
__device__ __forceinline__ Norm norm_of(const std::byte* row, std::int64_t dim, bool by_16) {
    Norm norm;
    float values[elements_of_piece<Type>];
    if constexpr (Type != TokenType::f16) {
        float largest = 0;
        for (std::int64_t k = 0; k < dim; k += elements_of_piece<Type>) {
            widen<Type>(read_piece<Type>(row, k, dim, by_16), values);
#pragma unroll
            for (const float x : values) largest = fmaxf(largest, fabsf(x));
        }
        if (largest > 0 && largest < __builtin_huge_valf()) {
            const int exponent = ilogbf(largest);
            if (exponent < -20 || exponent > 20) norm.scale = ldexpf(1.0F, exponent < -126 ? 126 : -exponent);
        }
    }
    SumOfSquares squares;
    for (std::int64_t k = 0; k < dim; k += elements_of_piece<Type>) {
        widen<Type>(read_piece<Type>(row, k, dim, by_16), values);
#pragma unroll
        for (float& x : values) x *= norm.scale;
        squares.add<Type>(values);
    }
    norm.inverse = squares.inverse_root();
    return norm;
}

}  // namespace rowmax::cuda
