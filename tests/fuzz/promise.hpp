// The rule of every fuzzer: an Error that says something is the only way to fail.
#pragma once

#include <string_view>

#include "rowmax/error.hpp"

namespace rowmax::fuzz {

/// What a fuzzer must never see: a promise broken without a crash.
inline void expect(bool promise) {
    if (!promise) __builtin_trap();
}

/// Runs `work`, which may throw Error. Any other exception ends the program, and libFuzzer reports it.
template <class Work>
void attempt(Work&& work) {
    try {
        work();
    } catch (const Error& error) {
        expect(error.code() != ErrorCode::internal && !std::string_view(error.what()).empty());
    }
}

}  // namespace rowmax::fuzz
