// float8 e4m3fn: a sign, four bits of exponent (bias 7), three of fraction; no infinities, one NaN of either sign, 448
// at most. Micikevicius et al., FP8 Formats for Deep Learning, https://arxiv.org/abs/2209.05433
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rowmax::core {

inline constexpr float float8_most = 448;

constexpr float float8_value(std::uint8_t bits) {
    const int exponent = (bits >> 3) & 15;
    const int fraction = bits & 7;
    if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
    float magnitude = 0;
    if (exponent == 0) {
        magnitude = static_cast<float>(fraction) * 0x1p-9F;
    } else {
        magnitude = std::bit_cast<float>(static_cast<std::uint32_t>((exponent + 120) << 23 | fraction << 20));
    }
    return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

/// Of every code.
inline constexpr std::array<float, 256> float8_values = [] {
    std::array<float, 256> values{};
    for (unsigned bits = 0; bits < 256; ++bits) values[bits] = float8_value(static_cast<std::uint8_t>(bits));
    return values;
}();

/// To nearest even; what is beyond 448 becomes 448.
constexpr std::uint8_t float_to_float8(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint8_t>(sign | 0x7fU);
    if (magnitude < 0x3c800000U) {  // below 2^-6: multiples of 2^-9; adding 2^14 leaves them, rounded, in the low bits
        const float shifted = std::bit_cast<float>(magnitude) + 0x1p14F;
        return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x46800000U));
    }
    const std::uint32_t rounded = magnitude + 0x7ffffU + ((magnitude >> 20) & 1U);
    if (rounded >= 0x43f00000U) return static_cast<std::uint8_t>(sign | 0x7eU);
    return static_cast<std::uint8_t>(sign | ((rounded - 0x3c000000U) >> 20));
}

}  // namespace rowmax::core
