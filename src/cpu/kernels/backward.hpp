// The backward pass of the CPU: gradients for queries and documents from the index that the forward saved.
#pragma once

#include "core/params.hpp"
#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {

void backward(const TileOps& ops, const core::Params& params, const core::Gradients& gradients);

/// The same of documents that are hidden states and their projection.
void backward_projected(const TileOps& ops, const core::Params& params, const core::Gradients& gradients);

}  // namespace rowmax::cpu
