#include "io/convert.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "core/half.hpp"
#include "rowmax/error.hpp"

namespace rowmax::io {

namespace {

double read(const std::byte* at, DType type) {
    switch (type) {
        case DType::f16: return static_cast<double>(core::half_to_float(core::load<std::uint16_t>(at)));
        case DType::bf16: return static_cast<double>(core::bfloat_to_float(core::load<std::uint16_t>(at)));
        case DType::f32: return static_cast<double>(core::load<float>(at));
        case DType::f64: return core::load<double>(at);
        default: throw Error(ErrorCode::invalid_type, fmt::format("tokens: {} cannot be converted", name_of(type)));
    }
}

// Rounds to odd: what was lost stays visible in the last bit, so that rounding once more, to a half, is exact.
float to_float_odd(double value) {
    const float nearest = static_cast<float>(value);
    if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
    const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
    const float toward_zero = away ? std::nextafter(nearest, 0.0F) : nearest;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(toward_zero) | 1U);
}

template <class T>
void store(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof(T));
}

// Returns what was written, so that the caller can see whether it is still finite.
double write(double value, std::byte* at, DType type) {
    switch (type) {
        case DType::f16: store(at, core::float_to_half(to_float_odd(value))); break;
        case DType::bf16: store(at, core::float_to_bfloat(to_float_odd(value))); break;
        case DType::f32: store(at, static_cast<float>(value)); break;
        case DType::f64: store(at, value); break;
        default: throw Error(ErrorCode::invalid_type, fmt::format("tokens: cannot be converted to {}", name_of(type)));
    }
    return read(at, type);
}

}  // namespace

void convert_row(const std::byte* from, DType from_type, std::byte* to, DType to_type, std::int64_t count,
                 const std::string& where) {
    const std::size_t from_size = size_of(from_type);
    const std::size_t to_size = size_of(to_type);
    for (std::int64_t i = 0; i < count; ++i, from += from_size, to += to_size) {
        const double value = read(from, from_type);
        if (std::isfinite(write(value, to, to_type)) || !std::isfinite(value)) continue;
        throw Error(ErrorCode::invalid_value,
                    fmt::format("{}: {} does not fit {}; keep a wider type", where, value, name_of(to_type)));
    }
}

}  // namespace rowmax::io
