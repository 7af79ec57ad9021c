// Points: the k nearest of another set, and the Chamfer distance between two sets.
//
// Distances are sums over coordinates of (p - r)^2 or |p - r|, by direct differences: two points 1e-3 apart are told
// apart at coordinates near 1e3, which |p|^2 + |r|^2 - 2 <p, r> does not do in float32. Nothing of size N x M is ever
// written. Idea: Flash-MaxSim's Chamfer operator; an online minimum, and gradients through the inverse of the index.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "rowmax/error.hpp"
#include "rowmax/export.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax {

enum class Metric {
    l2_sq,  ///< sum of (p - r)^2
    l1,     ///< sum of |p - r|
};

/// How nearest points are looked for. Results have the same bits.
enum class PointSearch {
    automatic,  ///< by the sizes
    brute,      ///< every pair
    tree,       ///< a k-d tree over R, up to 16 coordinates; sets that hold NaN or infinities are searched by `brute`
};

/// Points of one side: dense [..., N, c] (up to two dimensions of items) with any mask [..., N] (a leading 1 serves
/// every item; bool, integer or float, non-zero keeps a point), or packed [T, c] with cu_seqlens [B + 1] (int32 or
/// int64): item i is rows cu[i] .. cu[i + 1]. float16, bfloat16, float32 or float64; c from 1 to 4096.
struct PointSet {
    TensorView points;
    TensorView mask = {};
    TensorView cu_seqlens = {};
};

struct PointOptions {
    Metric metric = Metric::l2_sq;
    PointSearch search = PointSearch::automatic;
    /// Check the contents of offsets. Off, lies are clamped to the storage. Absent: as in Options.
    std::optional<bool> validate = std::nullopt;
    /// Threads to use; 0 means ROWMAX_THREADS, or else all cores. Results do not depend on it.
    int threads = 0;
    /// Forces an instruction set as in Options ("cpu.avx2").
    std::string_view kernel = {};
    /// As in Options. Results have the same bits as on the CPU.
    Device device = {};
};

/// Item i of P and item i of R belong together, so both have as many items.
struct PointRequest {
    PointSet p;
    PointSet r;
    PointOptions options;
};

/// The k nearest points of R for every point of P, ascending; the lowest index among equals, NaN first, as in a top-k.
///
/// distance [..., N, k] ([T, k] where P is packed), float32, or float64 for such points; index int64 of that shape,
/// counted from the item's first point. Beyond the points of R that are kept, and for points of P that are not kept or
/// belong to no item: distance infinity, index -1. k is at least 1. Time grows with k for every point that enters a
/// list.
ROWMAX_API void nearest(const PointRequest& request, std::int64_t k, const TensorView& distance,
                        const TensorView& index);

/// Gradients of sum(grad_distance * distance) for P and R, from the index that nearest() gave: of the points' shape and
/// type, contiguous; either may be absent. Where coordinates are equal, the gradient of l1 is 0. Deterministic: every
/// row has one owner, found through the inverse of the index; sums over many sources are split into runs of 256.
ROWMAX_API void nearest_backward(const PointRequest& request, std::int64_t k, const TensorView& index,
                                 const TensorView& grad_distance, const TensorView& grad_p, const TensorView& grad_r);

/// How the distances of one item are put together, each side on its own.
enum class Reduction {
    mean,  ///< divided by the number of kept points; 0 for none
    sum,
};

/// Results of chamfer(), or their gradients; contiguous, any may be absent.
struct ChamferViews {
    /// [] or [B] (the dimensions of items): reduced distances of P to R plus those of R to P. Added up in double
    /// precision in runs of 256 positions, the runs in order.
    TensorView value = {};
    /// Distances of each point to the nearest of the other side: [..., N] and [..., M]. 0 where there is none.
    TensorView distance_p = {};
    TensorView distance_r = {};
};

/// Where the nearest points were: int64, [..., N] and [..., M], -1 for none.
struct ChamferIndex {
    TensorView p = {};
    TensorView r = {};
};

/// The Chamfer distance of every item: each point of P to the nearest of R and, unless `one_sided`, each of R to the
/// nearest of P. A point that is not kept, or sees nothing on the other side, adds 0. A NaN distance is the nearest.
ROWMAX_API void chamfer(const PointRequest& request, Reduction reduction, bool one_sided, const ChamferViews& results,
                        const ChamferIndex& index);

/// Its gradients, from the index that chamfer() gave (r absent: one-sided): for `gradients` of the value, of the
/// distances, or of both. grad_p and grad_r as in nearest_backward().
ROWMAX_API void chamfer_backward(const PointRequest& request, Reduction reduction, const ChamferIndex& index,
                                 const ChamferViews& gradients, const TensorView& grad_p, const TensorView& grad_r);

}  // namespace rowmax
