// The floating point mode of a call: to nearest, with subnormals, no traps. A caller may have another one
// (torch.set_flush_denormal, -ffast-math somewhere in its process, fesetround), and threads started at another time yet
// another; bits would then depend on who computes them.
#pragma once

#include <cstdint>

namespace rowmax::core {

/// Sets the mode of this thread and returns the one before; the CPU backend has them, since they are instructions.
std::uint64_t set_standard_float_mode() noexcept;
void set_float_mode(std::uint64_t mode) noexcept;

/// The standard mode for as long as it lives.
class StandardFloatMode {
  public:
    StandardFloatMode() noexcept : before_(set_standard_float_mode()) {}
    ~StandardFloatMode() { set_float_mode(before_); }
    StandardFloatMode(const StandardFloatMode&) = delete;
    StandardFloatMode& operator=(const StandardFloatMode&) = delete;

  private:
    std::uint64_t before_;
};

}  // namespace rowmax::core
