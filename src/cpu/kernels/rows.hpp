// Work on single rows: widening, sums of squares, scaled sums. Included by files under inst/ only.
#pragma once

#include "cpu/kernels/tile_ops.hpp"
#include "cpu/prim/unroll.hpp"

namespace rowmax::cpu {
namespace {

ROWMAX_INLINE float fused(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
ROWMAX_INLINE double fused(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}

template <class T>
ROWMAX_INLINE T read(const std::byte* at) {
    T value;
    __builtin_memcpy(&value, at, sizeof(T));
    return value;
}

/// Squares of up to 256 elements: element l of every 16 is added to lane l, the lanes as a tree.
template <class Vec>
ROWMAX_INLINE typename Vec::Value squares_of_block(const std::byte* row, std::int64_t count) {
    using Value = typename Vec::Value;
    constexpr std::int64_t size = sizeof(Value);
    constexpr int lanes = 16;
    constexpr int vectors = lanes / Vec::lanes;
    typename Vec::Reg sum[vectors];
    unroll<0, vectors>([&](auto v) ROWMAX_FLATTEN { sum[v] = Vec::zero(); });
    std::int64_t k = 0;
    for (; k + lanes <= count; k += lanes) {
        unroll<0, vectors>([&](auto v) ROWMAX_FLATTEN {
            const auto x = Vec::load(row + (k + v * Vec::lanes) * size);
            sum[v] = Vec::fma(x, x, sum[v]);
        });
    }
    Value lane[lanes];
    unroll<0, vectors>([&](auto v) ROWMAX_FLATTEN { Vec::store(lane + v * Vec::lanes, sum[v]); });
    for (int l = 0; k < count; ++k, ++l) {
        const Value x = read<Value>(row + k * size);
        lane[l] = fused(x, x, lane[l]);
    }
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
        for (int l = 0; l < distance; ++l) lane[l] += lane[l + distance];
    }
    return lane[0];
}

/// Sum of squares of a row; the sums of its blocks are added in double.
template <class Vec>
inline double sum_squares(const std::byte* row, std::int64_t dim) {
    constexpr std::int64_t block = 256;
    constexpr std::int64_t size = sizeof(typename Vec::Value);
    double total = 0;
    for (std::int64_t k = 0; k < dim; k += block) {
        total += double{squares_of_block<Vec>(row + k * size, dim - k < block ? dim - k : block)};
    }
    return total;
}

/// sum += factor * row
template <class Vec>
inline void add_scaled(typename Vec::Value* sum, const std::byte* row, typename Vec::Value factor, std::int64_t dim) {
    using Value = typename Vec::Value;
    constexpr std::int64_t size = sizeof(Value);
    const auto f = Vec::broadcast(factor);
    std::int64_t k = 0;
    for (; k + Vec::lanes <= dim; k += Vec::lanes) {
        Vec::store(sum + k, Vec::fma(f, Vec::load(row + k * size), Vec::load(sum + k)));
    }
    for (; k < dim; ++k) sum[k] = fused(factor, read<Value>(row + k * size), sum[k]);
}

ROWMAX_INLINE float from_bits(std::uint32_t bits) {
    return read<float>(reinterpret_cast<const std::byte*>(&bits));
}

ROWMAX_INLINE float half_value(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16;
    const std::uint32_t magnitude = bits & 0x7fffU;
    if (magnitude >= 0x7c00U) return from_bits(sign | 0x7f800000U | (magnitude << 13));
    // Exponent and fraction shifted into place and multiplied by 2^112: exact, subnormals included.
    const float value = from_bits(magnitude << 13) * 0x1p112F;
    return sign != 0 ? -value : value;
}

ROWMAX_INLINE float bfloat_value(std::uint16_t bits) {
    return from_bits(std::uint32_t{bits} << 16);
}

/// `some` widens Step elements, `one` a single one. The last vector overlaps its predecessor.
template <int Step, class Some, class One>
ROWMAX_INLINE void widen(const std::byte* row, float* to, std::int64_t dim, Some some, One one) {
    if (dim < Step) {
        for (std::int64_t k = 0; k < dim; ++k) to[k] = one(read<std::uint16_t>(row + 2 * k));
        return;
    }
    for (std::int64_t k = 0; k < dim; k += Step) {
        const std::int64_t at = k + Step <= dim ? k : dim - Step;
        some(row + 2 * at, to + at);
    }
}

template <class Half>
inline void widen_f16(const std::byte* row, float* to, std::int64_t dim) {
    widen<Half::step>(row, to, dim, &Half::widen_f16, &half_value);
}

template <class Half>
inline void widen_bf16(const std::byte* row, float* to, std::int64_t dim) {
    widen<Half::step>(row, to, dim, &Half::widen_bf16, &bfloat_value);
}

/// Exponent and fraction at the place of float16's, whose exponents are 8 less: exact, subnormals included.
ROWMAX_INLINE float quarter_value(std::uint8_t bits) {
    const std::uint32_t magnitude = bits & 0x7fU;
    const float value = half_value(static_cast<std::uint16_t>(magnitude << 7)) * 256;
    if (magnitude == 0x7fU) return from_bits(0x7fc00000U);
    return (bits & 0x80U) != 0 ? -value : value;
}

template <class Half>
inline void widen_f8(const std::byte* row, float* to, std::int64_t dim) {
    if (dim < Half::step) {
        for (std::int64_t k = 0; k < dim; ++k) to[k] = quarter_value(read<std::uint8_t>(row + k));
        return;
    }
    for (std::int64_t k = 0; k < dim; k += Half::step) {
        const std::int64_t at = k + Half::step <= dim ? k : dim - Half::step;
        Half::widen_f8(row + at, to + at);
    }
}

template <int InByte>
ROWMAX_INLINE void add_weights_of(const std::byte* packed, const float* of_byte, const float* from, float* to,
                                  std::int64_t dim) {
    const std::int64_t whole = dim / InByte;
    for (std::int64_t b = 0; b < whole; ++b) {
        const float* weights = of_byte + std::int64_t{read<std::uint8_t>(packed + b)} * InByte;
        float sum[InByte];  // read before any is written: the compiler cannot know that the tables are not `to`
        for (int i = 0; i < InByte; ++i) sum[i] = from[b * InByte + i] + weights[i];
        for (int i = 0; i < InByte; ++i) to[b * InByte + i] = sum[i];
    }
    for (std::int64_t k = whole * InByte; k < dim; ++k) {
        const std::int64_t byte = read<std::uint8_t>(packed + whole);
        to[k] = from[k] + of_byte[byte * InByte + (k - whole * InByte)];
    }
}

inline void add_weights(const std::byte* packed, int in_byte, const float* of_byte, const float* from, float* to,
                        std::int64_t dim) {
    switch (in_byte) {
        case 8: return add_weights_of<8>(packed, of_byte, from, to, dim);
        case 4: return add_weights_of<4>(packed, of_byte, from, to, dim);
        case 2: return add_weights_of<2>(packed, of_byte, from, to, dim);
        default: return add_weights_of<1>(packed, of_byte, from, to, dim);
    }
}

/// Codes of a document as words: `some` widens Codes::step of them, the rest is done one by one.
template <class Codes>
inline void widen_codes(const std::byte* row, float* words, std::int64_t dim) {
    constexpr std::int64_t size = 4 / Codes::in_word;
    auto* to = reinterpret_cast<std::byte*>(words);
    std::int64_t k = 0;
    for (; k + Codes::step <= dim; k += Codes::step) Codes::widen(row + k, to + k * size);
    for (; k < dim || k % Codes::in_word != 0; ++k) {
        const std::int16_t code = k < dim ? static_cast<std::int16_t>(read<std::int8_t>(row + k) + Codes::offset) : 0;
        __builtin_memcpy(to + k * size, &code, size);
    }
}

/// Sign bits are words as they are stored.
struct BitCodes {
    static constexpr std::int64_t in_word = 32;
    static constexpr std::int32_t offset = 0;
};

/// `dim`: bits.
template <>
inline void widen_codes<BitCodes>(const std::byte* row, float* words, std::int64_t dim) {
    const std::int64_t bytes = (dim + 7) / 8;
    words[(dim - 1) / 32] = 0;
    __builtin_memcpy(words, row, static_cast<std::size_t>(bytes));
}

}  // namespace
}  // namespace rowmax::cpu
