// The ceiling of memory: how fast bytes can be read, with nothing done to them.
#pragma once

#include <cstddef>

namespace rowmax::bench {

/// Reads every cache line of `data` once, the threads sharing it in equal parts.
void read_once(const std::byte* data, std::size_t bytes, int threads);

}  // namespace rowmax::bench
