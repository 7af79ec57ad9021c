// One element of an array of any type, as a double.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/float8.hpp"
#include "core/half.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::core {

/// The element at `at`, of any alignment.
inline double read_element(const std::byte* at, DType dtype) {
    switch (dtype) {
        case DType::f16: return half_to_float(load<std::uint16_t>(at));
        case DType::bf16: return bfloat_to_float(load<std::uint16_t>(at));
        case DType::f32: return load<float>(at);
        case DType::f64: return load<double>(at);
        case DType::i8: return load<std::int8_t>(at);
        case DType::i16: return load<std::int16_t>(at);
        case DType::i32: return load<std::int32_t>(at);
        case DType::i64: return static_cast<double>(load<std::int64_t>(at));
        case DType::f8e4m3: return float8_values[load<std::uint8_t>(at)];
        case DType::u8:
        case DType::boolean: break;
    }
    return load<std::uint8_t>(at);
}

namespace detail {

template <class T>
void write_as(std::byte* at, double value) {
    const T narrow = static_cast<T>(value);
    std::memcpy(at, &narrow, sizeof(T));
}

inline void write_bits(std::byte* at, std::uint16_t bits) {
    std::memcpy(at, &bits, sizeof(bits));
}

// Rounds to odd: what was lost stays visible in the last bit, so that rounding once more, to 16 bits, is exact.
inline float to_float_odd(double value) {
    const auto nearest = static_cast<float>(value);
    if (std::isnan(value) || double{nearest} == value) return nearest;
    const bool away = std::fabs(double{nearest}) > std::fabs(value);
    const float toward_zero = away ? std::nextafter(nearest, 0.0F) : nearest;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(toward_zero) | 1U);
}

}  // namespace detail

/// Writes `value` to `at`, of any alignment: floating point is rounded once, to nearest even; integers are cut.
inline void write_element(std::byte* at, DType dtype, double value) {
    switch (dtype) {
        case DType::f16: return detail::write_bits(at, float_to_half(detail::to_float_odd(value)));
        case DType::bf16: return detail::write_bits(at, float_to_bfloat(detail::to_float_odd(value)));
        case DType::f32: return detail::write_as<float>(at, value);
        case DType::f64: return detail::write_as<double>(at, value);
        case DType::i8: return detail::write_as<std::int8_t>(at, value);
        case DType::u8: return detail::write_as<std::uint8_t>(at, value);
        case DType::i16: return detail::write_as<std::int16_t>(at, value);
        case DType::i32: return detail::write_as<std::int32_t>(at, value);
        case DType::i64: return detail::write_as<std::int64_t>(at, value);
        case DType::f8e4m3: {
            const std::uint8_t bits = float_to_float8(detail::to_float_odd(value));
            std::memcpy(at, &bits, sizeof(bits));
            return;
        }
        case DType::boolean: return detail::write_as<std::uint8_t>(at, value != 0 ? 1 : 0);
    }
}

}  // namespace rowmax::core
