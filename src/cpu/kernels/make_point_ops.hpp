// Gathers the functions of one instruction set into the table that its file under inst/ exports.
#pragma once

#include "cpu/kernels/point_fold.hpp"
#include "cpu/kernels/point_search.hpp"

namespace rowmax::cpu {
namespace {

template <class Vec>
constexpr TypedPointOps<typename Vec::Value> typed_point_ops() {
    static_assert(tree_fan % Vec::lanes == 0);
    TypedPointOps<typename Vec::Value> ops;
    ops.lanes = Vec::lanes;
    ops.panel_lanes = panel_vectors * Vec::lanes;
    ops.fold[0] = &fold_points<Vec, true>;
    ops.fold[1] = &fold_points<Vec, false>;
    ops.fold_both[0] = &fold_points_both<Vec, true>;
    ops.fold_both[1] = &fold_points_both<Vec, false>;
    ops.fold_lists[0] = &fold_point_lists<Vec, true>;
    ops.fold_lists[1] = &fold_point_lists<Vec, false>;
    ops.search[0] = &search_points<Vec, true>;
    ops.search[1] = &search_points<Vec, false>;
    return ops;
}

template <class F32, class F64>
constexpr PointOps make_point_ops() {
    PointOps ops;
    ops.f32 = typed_point_ops<F32>();
    ops.f64 = typed_point_ops<F64>();
    return ops;
}

}  // namespace
}  // namespace rowmax::cpu
