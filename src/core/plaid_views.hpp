// Arguments of PLAID's steps, wherever they lie.
#pragma once

#include "core/device_plaid.hpp"
#include "core/views.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::core {

/// For views of a call with these options.
Copies copies_for(const Options& options);

/// Throws unless these are [C, Lq] of a type that steps take.
void check_centroid_scores(const TensorView& scores);
CentroidScoresView centroid_scores_view(Copies& copies, const TensorView& scores);

/// int32 or int64 of any shape, in order.
IntList flat_list(Copies& copies, const TensorView& view, std::string_view name);

}  // namespace rowmax::core
