// The backward pass: gradients of scores, from the winning tokens.
#pragma once

#include <cstddef>

#include "core/params.hpp"
#include "cuda/kernels/backward_kernels.hpp"

namespace rowmax::cuda {

/// Bytes of scratch memory.
std::size_t backward_workspace(const core::Params& params, const core::Gradients& gradients);

void backward(const BackwardKernels& kernels, const core::Params& params, const core::Gradients& gradients);

/// Lets the current device run these kernels with as much shared memory as they may ask for.
void load_backward_kernels();

}  // namespace rowmax::cuda
