// Gradients of distances to nearest points, in a device's memory.
#pragma once

#include "core/point_backend.hpp"

namespace rowmax::cuda {

std::size_t nearest_backward_workspace(const core::PointParams& params, const core::PointGradients& gradients);
void nearest_backward(const core::PointParams& params, const core::PointGradients& gradients);

}  // namespace rowmax::cuda
