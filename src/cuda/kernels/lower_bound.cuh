// Binary search in sorted keys.
#pragma once

#include <cstdint>

namespace rowmax::cuda {

/// The first of `count` ascending keys that is not below `key`.
__device__ __forceinline__ std::int64_t lower_bound(const std::uint32_t* keys, std::int64_t count, std::uint32_t key) {
    std::int64_t low = 0;
    std::int64_t high = count;
    while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (keys[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

}  // namespace rowmax::cuda
