// 16-bit floats to float and back, in plain C++: exact widening, rounding to nearest even.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rowmax::core {

/// Reads a value from memory of any alignment.
template <class T>
inline T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}

inline float bfloat_to_float(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

inline float half_to_float(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fU;
    const std::uint32_t fraction = bits & 0x3ffU;
    if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
    // Zero and subnormals: fraction * 2^-24 is exact in float.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
}

inline std::uint16_t float_to_bfloat(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline std::uint16_t float_to_half(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // 65520 and up
    if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 leaves the rounded subnormal in the low bits
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
    }
    const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

}  // namespace rowmax::core
