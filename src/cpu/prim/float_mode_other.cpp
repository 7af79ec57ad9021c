// Where the mode has no short instruction here yet: rounding, which C++ can name.
#include <cfenv>

#include "core/float_mode.hpp"

namespace rowmax::core {

std::uint64_t set_standard_float_mode() noexcept {
    const int before = std::fegetround();
    if (before != FE_TONEAREST) std::fesetround(FE_TONEAREST);
    return static_cast<std::uint64_t>(before);
}

void set_float_mode(std::uint64_t mode) noexcept {
    if (static_cast<int>(mode) != std::fegetround()) std::fesetround(static_cast<int>(mode));
}

}  // namespace rowmax::core
