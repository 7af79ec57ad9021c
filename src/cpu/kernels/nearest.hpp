// Nearest points of every item, in one direction or both.
#pragma once

#include <cstdint>

#include "core/point_backend.hpp"
#include "cpu/kernels/point_ops.hpp"

namespace rowmax::cpu {

using core::NearestOutputs;

/// `p`: for points of P the nearest of R; `r` the other way round.
void nearest(const PointOps& ops, const core::PointParams& params, const NearestOutputs& p, const NearestOutputs& r);

}  // namespace rowmax::cpu
