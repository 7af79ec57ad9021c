// MXCSR: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, section 10.2.3. <cfenv> would also
// save and load the x87 unit, which takes longer than scoring a short document.
#include <xmmintrin.h>

#include "core/float_mode.hpp"

namespace rowmax::core {

namespace {

constexpr unsigned standard = 0x1f80;  // every exception masked; the power-on value
constexpr unsigned status = 0x3f;      // flags that arithmetic raises

}  // namespace

std::uint64_t set_standard_float_mode() noexcept {
    const unsigned before = _mm_getcsr();
    if ((before & ~status) != standard) _mm_setcsr(standard);
    return before;
}

void set_float_mode(std::uint64_t mode) noexcept {
    const auto wanted = static_cast<unsigned>(mode);
    if ((wanted & ~status) != (_mm_getcsr() & ~status)) _mm_setcsr(wanted);
}

}  // namespace rowmax::core
