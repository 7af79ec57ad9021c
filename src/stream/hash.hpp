// FNV-1a, 64 bits: to notice that bytes changed, not to defend against anybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rowmax::stream {

inline std::uint64_t fnv1a(std::span<const std::byte> bytes, std::uint64_t hash = 0xcbf29ce484222325ULL) {
    for (const std::byte b : bytes) hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001b3ULL;
    return hash;
}

}  // namespace rowmax::stream
