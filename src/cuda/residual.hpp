// Residual documents: which kernel runs and what it is given.
#pragma once

#include <cstddef>
#include <string>

#include "core/params.hpp"

namespace rowmax::cuda {

std::string refuse_residual(const core::Params& params);
/// Sign bits on both sides: as residuals of one bit, without centroids, beside queries of -1 and 1.
std::string refuse_bits(const core::Params& params);
std::size_t residual_workspace(const core::Params& params, const core::Outputs& outputs);
void score_residual(const core::Params& params, const core::Outputs& outputs);
std::size_t residual_backward_workspace(const core::Params& params, const core::Gradients& gradients);
/// Of queries alone: documents have none.
void backward_residual(const core::Params& params, const core::Gradients& gradients);
void load_residual_kernels(int shared_bytes);

}  // namespace rowmax::cuda
