// Single token rows in global memory: pieces of 16 bytes whatever their alignment, as floats and back.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstddef>
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
        if constexpr (bytes_of(Type) == 4) {
            words[i] = reinterpret_cast<const std::uint32_t*>(at)[i];
        } else if constexpr (bytes_of(Type) == 1) {
            words[i / 4] |= std::to_integer<std::uint32_t>(at[i]) << (i % 4 * 8);
        } else {
            words[i / 2] |= static_cast<std::uint32_t>(reinterpret_cast<const std::uint16_t*>(at)[i]) << (i % 2 * 16);
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/// Eight float8 codes [element, element + 8) of a row of `dim`, as float16; zeros beyond it.
__device__ __forceinline__ uint4 read_widened_codes(const std::byte* row, std::int64_t element, std::int64_t dim,
                                                    bool by_16) {
    std::uint32_t codes[2] = {0, 0};
    if (by_16 && element + 8 <= dim) {
        const uint2 both = *reinterpret_cast<const uint2*>(row + element);
        codes[0] = both.x, codes[1] = both.y;
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (element + i < dim) codes[i / 4] |= std::to_integer<std::uint32_t>(row[element + i]) << (i % 4 * 8);
        }
    }
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const auto two = static_cast<__nv_fp8x2_storage_t>(codes[i / 2] >> (i % 2 * 16));
        const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3);
        words[i] = halves.x | static_cast<std::uint32_t>(halves.y) << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/// Two elements of a 16-bit type as floats.
template <TokenType Type>
__device__ __forceinline__ void widen_two(std::uint32_t word, float (&to)[2]) {
    if constexpr (Type == TokenType::bf16) {
        to[0] = __uint_as_float(word << 16);
        to[1] = __uint_as_float(word & 0xffff0000U);
    } else {
        const auto both = *reinterpret_cast<const __half2*>(&word);
        to[0] = __low2float(both);
        to[1] = __high2float(both);
    }
}

/// The elements of a piece as floats.
template <TokenType Type>
__device__ __forceinline__ void widen(const uint4& piece, float (&to)[elements_of_piece<Type>]) {
    const std::uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (bytes_of(Type) == 4) {
            to[i] = __uint_as_float(words[i]);
        } else {
            float two[2];
            widen_two<Type>(words[i], two);
            to[2 * i] = two[0];
            to[2 * i + 1] = two[1];
        }
    }
}

/// Two numbers, each rounded to a 16-bit type.
template <TokenType Type>
__device__ __forceinline__ std::uint32_t narrow_two(float low, float high) {
    if constexpr (Type == TokenType::bf16) {
        return __bfloat16_as_ushort(__float2bfloat16_rn(low)) |
               (static_cast<std::uint32_t>(__bfloat16_as_ushort(__float2bfloat16_rn(high))) << 16);
    } else {
        return __half_as_ushort(__float2half_rn(low)) |
               (static_cast<std::uint32_t>(__half_as_ushort(__float2half_rn(high))) << 16);
    }
}

/// The inverse of widen; exact for values that the type holds.
template <TokenType Type>
__device__ __forceinline__ uint4 narrow(const float (&from)[elements_of_piece<Type>]) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (bytes_of(Type) == 4) {
            words[i] = __float_as_uint(from[i]);
        } else {
            words[i] = narrow_two<Type>(from[2 * i], from[2 * i + 1]);
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

}  // namespace rowmax::cuda
