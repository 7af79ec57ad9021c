// Loops whose every step has a constant index, so that arrays of accumulators become registers.
#pragma once

#define ROWMAX_INLINE inline __attribute__((always_inline))

namespace rowmax::cpu {
namespace {

template <int I>
struct Constant {
    static constexpr int value = I;
    constexpr operator int() const { return I; }
};

template <int First, int Last, class F>
ROWMAX_INLINE void unroll(F&& f) {
    if constexpr (First < Last) {
        f(Constant<First>{});
        unroll<First + 1, Last>(f);
    }
}

}  // namespace
}  // namespace rowmax::cpu
