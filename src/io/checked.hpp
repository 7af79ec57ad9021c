// Arithmetic on numbers that a file announces: nothing wraps, nothing is believed before it is compared with the file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "core/half.hpp"

namespace rowmax::io {

static_assert(std::endian::native == std::endian::little, "file formats are little endian, and read in place");

/// True when [offset, offset + length) lies inside a file of `size` bytes.
inline bool lies_inside(std::uint64_t offset, std::uint64_t length, std::uint64_t size) {
    return offset <= size && length <= size - offset;
}

/// A little-endian number at any alignment. The caller has checked that it lies inside.
template <class T>
T load_at(std::span<const std::byte> bytes, std::uint64_t offset) {
    return core::load<T>(bytes.data() + offset);
}

/// Bytes of a tensor; nothing when a dimension is negative or when its strides would overflow, even if another
/// dimension is 0.
inline std::optional<std::uint64_t> tensor_bytes(std::span<const std::int64_t> shape, std::uint64_t item_size) {
    std::uint64_t total = item_size;
    bool empty = false;
    for (const std::int64_t n : shape) {
        if (n < 0) return std::nullopt;
        if (n == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(total, static_cast<std::uint64_t>(n), &total) ||
                   total > std::numeric_limits<std::int64_t>::max()) {
            return std::nullopt;
        }
    }
    return empty ? 0 : total;
}

}  // namespace rowmax::io
