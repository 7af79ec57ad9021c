// The oracle of nearest() and chamfer(), in double precision, written to be read: tests compare every kernel with it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/points.hpp"

namespace rowmax::core::reference {

struct Nearest {
    std::vector<double> distance;     ///< [points of the sources' storage, k]; infinity where there is none
    std::vector<std::int64_t> index;  ///< the same; -1 where there is none
};

/// The k nearest of R for the points of P; the other way round with `reversed`.
Nearest nearest(const PointParams& params, std::int64_t k, bool reversed = false);

struct Chamfer {
    std::vector<double> value;  ///< [items]
    Nearest p;
    Nearest r;
};
Chamfer chamfer(const PointParams& params, bool mean, bool one_sided);

struct PointGradient {
    std::vector<double> p;  ///< [rows of the storage, c]
    std::vector<double> r;
};

/// Adds the gradient of sum(grad_distance * distance) of one direction to `gradient`, whose arrays have their sizes.
void add_nearest_gradient(const PointParams& params, std::int64_t k, bool reversed,
                          const std::vector<std::int64_t>& index, const std::vector<double>& grad_distance,
                          PointGradient& gradient);

}  // namespace rowmax::core::reference
