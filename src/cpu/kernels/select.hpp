// Scores that keep more of a row of similarities than its maximum; see core/selection.hpp for what each gives.
#pragma once

#include "core/selection.hpp"
#include "cpu/kernels/select_ops.hpp"
#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {

void score_top_tokens(const TileOps& tiles, const SelectionOps& ops, const core::Params& params,
                      const core::TopTokens& out);
void score_smooth(const TileOps& tiles, const SelectionOps& ops, const core::Params& params, const core::Smooth& out);
void smooth_backward(const TileOps& tiles, const SelectionOps& ops, const core::Params& params,
                     const core::SmoothGradients& gradients);
void score_prefixes(const TileOps& tiles, const SelectionOps& ops, const core::Params& params,
                    const core::Prefixes& out);
void score_retrieved(const TileOps& tiles, const SelectionOps& ops, const core::Params& params,
                     const core::Retrieval& out);

}  // namespace rowmax::cpu
