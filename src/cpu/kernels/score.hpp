// The forward pass of the CPU: MaxSim of every pair, for any layout and token type, over the tiles of one instruction
// set.
#pragma once

#include "core/params.hpp"
#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {

void score(const TileOps& ops, const core::Params& params, const core::Outputs& outputs);

}  // namespace rowmax::cpu
