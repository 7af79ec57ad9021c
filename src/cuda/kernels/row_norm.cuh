// One over the L2 norms of token rows. Squares are added in the same order wherever they are read from, so that the
// kernels' bits agree.
#pragma once

#include "cuda/kernels/token_row.cuh"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

/// Of row * scale, a power of two, `inverse` is one over the norm.
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
    [[nodiscard]] __device__ __forceinline__ float sum() const {
        return ((chain_[0] + chain_[4]) + (chain_[2] + chain_[6])) +
               ((chain_[1] + chain_[5]) + (chain_[3] + chain_[7]));
    }

  private:
    float chain_[8] = {};
};

__device__ __forceinline__ float inverse_root(float sum) {
    return sum == 0 ? 0.0F : 1.0F / sqrtf(sum);
}

/// 2^exponent, from 2^-126 to 2^127: beyond, the nearest of these.
__device__ __forceinline__ float power_of_two(int exponent) {
    const int clamped = exponent < -126 ? -126 : (exponent > 127 ? 127 : exponent);
    return __uint_as_float(static_cast<std::uint32_t>(clamped + 127) << 23);
}

/// The norm of a row of `pieces` pieces of 16 bytes, `piece(i)` each, far from magnitude 1: it is scaled first.
template <TokenType Type, class Piece>
__device__ __forceinline__ Norm scaled_norm(int pieces, Piece piece) {
    float values[elements_of_piece<Type>];
    float largest = 0;
    for (int i = 0; i < pieces; ++i) {
        widen<Type>(piece(i), values);
#pragma unroll
        for (const float x : values) largest = fmaxf(largest, fabsf(x));
    }
    Norm norm;
    if (largest > 0 && largest < __builtin_huge_valf()) {
        const int exponent = ilogbf(largest);
        if (exponent < -20 || exponent > 20) norm.scale = exponent < -126 ? power_of_two(126) : power_of_two(-exponent);
    }
    SumOfSquares squares;
    for (int i = 0; i < pieces; ++i) {
        widen<Type>(piece(i), values);
#pragma unroll
        for (float& x : values) x *= norm.scale;
        squares.add<Type>(values);
    }
    norm.inverse = inverse_root(squares.sum());
    return norm;
}

/// The norm of a row of a 16-bit type whose pieces pass by once, in order. With two Lanes, neighbours share a row: one
/// sees the first half of each piece, the other the second.
template <TokenType Type, int Lanes = 1>
class PassingNorm {
  public:
    static constexpr int words = 4 / Lanes;

    __device__ __forceinline__ void add(const std::uint32_t (&part)[words]) {
#pragma unroll
        for (int i = 0; i < words; ++i) {
            float two[2];
            widen_two<Type>(part[i], two);
            chain_[2 * i] = fmaf(two[0], two[0], chain_[2 * i]);
            chain_[2 * i + 1] = fmaf(two[1], two[1], chain_[2 * i + 1]);
            if constexpr (wide) bits_ |= part[i];
        }
    }

    /// The tree of SumOfSquares.
    [[nodiscard]] __device__ __forceinline__ float sum() const {
        float two[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) two[i] = chain_[i] + (Lanes == 2 ? exchange(chain_[i], 1) : chain_[chains - 4 + i]);
        return (two[0] + two[2]) + (two[1] + two[3]);
    }

    /// Whether the plain sum came so near to the ends of float32, as only the wide type's can, that the norm must be
    /// found from scaled values.
    [[nodiscard]] __device__ __forceinline__ bool far(float sum) const {
        if constexpr (!wide) return false;
        const std::uint32_t bits = Lanes == 2 ? bits_ | exchange(bits_, 1) : bits_;
        return !(sum >= 0x1p-80F && sum <= 0x1p80F) && (bits & 0x7fff7fffU) != 0;
    }

    template <class Piece>
    [[nodiscard]] __device__ __forceinline__ Norm norm(int pieces, Piece piece) const {
        const float squares = sum();
        return far(squares) ? scaled_norm<Type>(pieces, piece) : Norm{1, inverse_root(squares)};
    }

  private:
    static constexpr bool wide = Type == TokenType::bf16;
    static constexpr int chains = 2 * words;

    float chain_[chains] = {};
    std::uint32_t bits_ = 0;
};

/// What a similarity is multiplied by for a document token, which is multiplied with query rows as it is.
__device__ __forceinline__ float inverse_of(const Norm& norm) {
    constexpr float largest = 0x1.fffffep127F;
    const float inverse = norm.scale * norm.inverse;
    return inverse > largest ? largest : inverse;
}

/// Query rows of the wide type are scaled to norms from a quarter to a half, so that products with document tokens of
/// any magnitude stay within float32.
template <TokenType Type>
__device__ __forceinline__ Norm for_query(const Norm& norm) {
    if constexpr (Type != TokenType::bf16) return norm;
    if (!(norm.inverse > 0 && norm.inverse < __builtin_huge_valf())) return norm;
    const int before = ilogbf(norm.scale);
    const float scale = power_of_two(before + ilogbf(norm.inverse) - 1);
    return {scale, norm.inverse * power_of_two(before - ilogbf(scale))};
}

/// The norm of a row in global memory.
template <TokenType Type>
__device__ __forceinline__ Norm norm_of(const std::byte* row, std::int64_t dim, bool by_16) {
    constexpr int count = elements_of_piece<Type>;
    const auto pieces = static_cast<int>((dim + count - 1) / count);
    const auto piece = [&](int i) { return read_piece<Type>(row, std::int64_t{i} * count, dim, by_16); };
    if constexpr (bytes_of(Type) == 4) {
        return scaled_norm<Type>(pieces, piece);
    } else {
        PassingNorm<Type> norm;
        for (int i = 0; i < pieces; ++i) {
            const uint4 p = piece(i);
            norm.add({p.x, p.y, p.z, p.w});
        }
        return norm.norm(pieces, piece);
    }
}

}  // namespace rowmax::cuda
