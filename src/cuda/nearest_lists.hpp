// The k nearest of another set, in a device's memory.
#pragma once

#include "core/point_backend.hpp"

namespace rowmax::cuda {

std::size_t list_nearest_workspace(const core::PointParams& params, const core::NearestOutputs& to);
void list_nearest(const core::PointParams& params, const core::NearestOutputs& to);

}  // namespace rowmax::cuda
