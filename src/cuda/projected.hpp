// Documents that are hidden states: from a problem to launches.
#pragma once

#include <cstddef>
#include <string>

#include "core/params.hpp"
#include "cuda/device.hpp"
#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

/// Empty when the kernel for tokens of this type takes the problem, else what is in the way.
std::string refuse_projected(TokenType type, const core::Params& params);

std::size_t projected_workspace(const core::Params& params, const core::Outputs& outputs);

void score_projected(TokenType type, const core::Params& params, const core::Outputs& outputs);

/// The tokens themselves, [documents][length][d, padded with zeros to a multiple of 8].
void write_projected_tokens(TokenType type, const core::Params& params, void* tokens);

/// Lets the current device run these kernels.
void load_projected_kernels(const DeviceInfo& info);

}  // namespace rowmax::cuda
