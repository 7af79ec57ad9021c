// Gradients of distances to nearest points.
#pragma once

#include "core/point_backend.hpp"

namespace rowmax::cpu {

using core::ChosenPoints;

/// Gradients of sum(weight * distance) over both directions, rounded once to the points' type; null: not wanted.
void nearest_backward(const core::PointParams& params, const ChosenPoints& p, const ChosenPoints& r, void* grad_p,
                      void* grad_r);

}  // namespace rowmax::cpu
