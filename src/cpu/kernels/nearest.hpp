// Nearest points of every item, in one direction or both.
#pragma once

#include <cstdint>

#include "core/points.hpp"
#include "cpu/kernels/point_ops.hpp"

namespace rowmax::cpu {

/// Where the results of one direction go, for all rows of the sources' storage: [rows, k] of the type of results.
struct NearestOutputs {
    void* distance = nullptr;  ///< null: this direction is not wanted
    std::int64_t* index = nullptr;
    std::int64_t k = 1;
    double none = 0;  ///< the distance where there is no target
};

/// `p`: for points of P the nearest of R; `r` the other way round.
void nearest(const PointOps& ops, const core::PointParams& params, const NearestOutputs& p, const NearestOutputs& r);

}  // namespace rowmax::cpu
