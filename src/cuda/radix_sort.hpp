// Numbers sorted by keys, stably: what turns an index round where destinations are too many to be counted in shared
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/params.hpp"

namespace rowmax::cuda {

/// Two lists in scratch memory, filled by the caller before the sort.
struct SortLists {
    std::uint32_t* keys = nullptr;
    std::uint32_t* numbers = nullptr;
    std::int64_t count = 0;
};

/// Scratch memory for `count` keys below or at `largest`.
std::size_t sort_bytes(std::int64_t count, std::int64_t largest);
/// Where in that memory the lists lie before the sort.
SortLists lists_to_sort(std::byte* memory, std::int64_t count);
/// Queues the sort; the result lies in the same memory, elsewhere.
SortLists sort_by_key(std::byte* memory, std::int64_t count, std::int64_t largest, const core::Place& place);

}  // namespace rowmax::cuda
