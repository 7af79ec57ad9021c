// Numbers as colours: dark blue is low, yellow is high, grey is none.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace rowmax::cli::explain {

struct Rgb {
    std::uint8_t r = 0;
    std::uint8_t g = 0;
    std::uint8_t b = 0;
};

inline constexpr Rgb no_colour{128, 128, 128};

/// From dark blue at 0 to yellow at 1, lightness rising all the way (anchors of matplotlib's viridis); values outside
/// are cut, NaN is grey.
Rgb colour_of(double share);

/// Whether black shows better on it than white.
bool is_light(Rgb colour);

/// Maps [low, high] to [0, 1]; NaN stays NaN.
struct Scale {
    double low = 0;
    double high = 1;
    [[nodiscard]] double share(double value) const {
        if (std::isnan(value)) return value;
        return high > low ? (value - low) / (high - low) : 0.5;
    }
};

/// From 0 to the largest finite value: every token is measured against the best answer, so bars of one table compare.
Scale scale_from_zero(const std::vector<double>& values);

}  // namespace rowmax::cli::explain
