// Pairs on which several blocks of rows or parts of a document work: scratch memory for what each of them found, and
// the second launch that joins it.
#pragma once

#include <cstddef>

#include "cuda/kernels/arguments.hpp"

namespace rowmax::cuda {

/// Whether maxima of query rows are multiplied: by one over their norms, or by scales.
bool has_row_factors(const core::Params& params);

std::size_t shared_pairs_bytes(const core::Params& params, const Plan& plan);
/// Tells the plan where in scratch memory it may write.
void place_shared_pairs(const core::Params& params, Plan& plan, std::byte* memory);
/// Launches what is left to do.
void finish_shared_pairs(const Arguments& call);

}  // namespace rowmax::cuda
