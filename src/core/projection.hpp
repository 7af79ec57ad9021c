// Documents that are hidden states, projected by a linear layer: checked, and as numbers by their definition.
#pragma once

#include <vector>

#include "core/params.hpp"
#include "core/sides.hpp"
#include "core/views.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/projection.hpp"

namespace rowmax::core {

inline constexpr SideNames hidden_names{"H", "d_mask", "cu_seqlens_d", "max_seqlen_d", "documents", "d_scale"};

/// Types and shapes of queries, of documents that have a projection, and of the projection.
void check_projection(const ScoreRequest& request);
Projection make_projection(Copies& copies, const ScoreRequest& request);

/// Puts grad_weight and grad_bias, each perhaps not given, into `raw`.
void add_projection_gradients(Gradients& raw, const ScoreRequest& request, const TensorView& grad_weight,
                              const TensorView& grad_bias);

/// The tokens of a request whose documents are hidden states, in the documents' shape with d, padded with zeros to a
/// multiple of 8, for their last dimension. Its queries tell d and are not read. Where a row has such a kernel (CUDA).
void write_tokens(const ScoreRequest& request, const TensorView& tokens);

/// A document's token W h + b before it is normalised, in extended precision, rounded once.
std::vector<double> projected_row(const Params& params, const std::vector<double>& hidden);

/// W as numbers, [d][hidden].
std::vector<double> weights_of(const Params& params);

}  // namespace rowmax::core
