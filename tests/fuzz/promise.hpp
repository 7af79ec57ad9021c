// What fuzzers of requests share.
#pragma once

namespace rowmax::fuzz {

/// What a fuzzer must never see: a promise broken without a crash.
inline void expect(bool promise) {
    if (!promise) __builtin_trap();
}

}  // namespace rowmax::fuzz
