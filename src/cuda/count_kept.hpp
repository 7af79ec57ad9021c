// Marks of kept points as the number of points kept before each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/params.hpp"

namespace rowmax::cuda {

std::size_t count_kept_bytes(std::int64_t count);
/// marks [count], 0 or 1, become their sums; `memory` as above.
void count_kept(std::byte* memory, std::int32_t* marks, std::int64_t count, const core::Place& place);

}  // namespace rowmax::cuda
