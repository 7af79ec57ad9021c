#include "cli/explain/colours.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace rowmax::cli::explain {

namespace {

constexpr std::array<Rgb, 9> anchors = {{{68, 1, 84},
                                         {71, 44, 122},
                                         {59, 81, 139},
                                         {44, 113, 142},
                                         {33, 144, 141},
                                         {39, 173, 129},
                                         {92, 200, 99},
                                         {170, 220, 50},
                                         {253, 231, 37}}};

std::uint8_t between(std::uint8_t a, std::uint8_t b, double t) {
    return static_cast<std::uint8_t>(std::lround(a + (b - a) * t));
}

}  // namespace

Rgb colour_of(double share) {
    if (std::isnan(share)) return no_colour;
    const double at = std::clamp(share, 0.0, 1.0) * (anchors.size() - 1);
    const auto i = std::min(static_cast<std::size_t>(at), anchors.size() - 2);
    const double t = at - static_cast<double>(i);
    return {between(anchors[i].r, anchors[i + 1].r, t), between(anchors[i].g, anchors[i + 1].g, t),
            between(anchors[i].b, anchors[i + 1].b, t)};
}

bool is_light(Rgb colour) {
    return colour.r * 3 + colour.g * 6 + colour.b > 1280;
}

Scale scale_from_zero(const std::vector<double>& values) {
    Scale scale{0, 0};
    for (const double value : values) {
        if (std::isfinite(value)) scale.high = std::max(scale.high, value);
    }
    if (scale.high <= 0) scale.high = 1;  // nothing answers: every share is 0
    return scale;
}

}  // namespace rowmax::cli::explain
