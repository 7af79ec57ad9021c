// Two sets of points, checked: what nearest() and chamfer() know of a request.
#pragma once

#include "core/params.hpp"
#include "core/views.hpp"
#include "rowmax/nearest.hpp"

namespace rowmax::core {

struct PointParams {
    DType dtype = DType::f32;
    std::int64_t dim = 0;
    Segments p;
    Segments r;
    Metric metric = Metric::l2_sq;
    PointSearch search = PointSearch::automatic;
    int threads = 0;
    Place place;

    /// Of distances and sums.
    [[nodiscard]] DType result_dtype() const { return dtype == DType::f64 ? DType::f64 : DType::f32; }
};

/// Params, the copies they may point into, and the shapes of results.
struct PointProblem {
    PointParams params;
    Copies copies;
    std::vector<std::int64_t> items;     ///< dimensions of the items: none, or [B], or two
    std::vector<std::int64_t> points_p;  ///< the shape of P without its coordinates
    std::vector<std::int64_t> points_r;
};

/// The largest number of coordinates that a tree takes: its bounds need one chain of additions.
inline constexpr std::int64_t most_tree_dims = 16;

PointProblem make_point_problem(const PointRequest& request);

}  // namespace rowmax::core
