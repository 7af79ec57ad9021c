// Loops whose every step has a constant index, so that arrays of accumulators become registers.
#pragma once

#include <cstdint>

// Accumulators stay in registers only if every function between them and the loop is inlined.
#define ROWMAX_INLINE inline __attribute__((always_inline))
#define ROWMAX_FLATTEN __attribute__((always_inline))  // the same, of a lambda

namespace rowmax::cpu {
namespace {

template <int I>
struct Constant {
    static constexpr int value = I;
    constexpr operator int() const { return I; }
};

/// The same number, but the compiler cannot know: loads that use it stay behind this point, where hoisted ones would
/// take the registers of accumulators.
template <class T>
ROWMAX_INLINE T opaque(T k) {
    asm volatile("" : "+r"(k));
    return k;
}

template <int First, int Last, class F>
ROWMAX_INLINE void unroll(F&& f) {
    if constexpr (First < Last) {
        f(Constant<First>{});
        unroll<First + 1, Last>(f);
    }
}

}  // namespace
}  // namespace rowmax::cpu
