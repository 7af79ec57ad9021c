// All sources of a call, sorted by the gradient row that they add to: for lists of pairs and ranges that may overlap.
#pragma once

#include <cstddef>

#include "cuda/kernels/backward_arguments.hpp"

namespace rowmax::cuda {

/// Scratch memory for that.
std::size_t sort_sources_bytes(const core::Params& params, Side side);

/// Queues the work; the result lies in `memory`. Sources of a row stay in order.
SortedSources sort_sources(const core::Params& params, const core::Gradients& gradients, Side side, std::byte* memory);

}  // namespace rowmax::cuda
