// Gathers the functions of one instruction set into the table that its file under inst/ exports.
#pragma once

#include "cpu/kernels/rows.hpp"
#include "cpu/kernels/tile.hpp"

namespace rowmax::cpu {
namespace {

template <class Vec>
constexpr TypedOps<typename Vec::Value> typed_ops() {
    TypedOps<typename Vec::Value> ops;
    ops.lanes = Vec::lanes;
    ops.tile_rows = tile_rows(Vec::registers);
    ops.fold_wide = &fold<Vec, 2>;
    ops.fold_narrow = &fold<Vec, 1>;
    ops.sum_squares = &sum_squares<Vec>;
    ops.add_scaled = &add_scaled<Vec>;
    return ops;
}

template <class F32, class F64, class Half>
constexpr TileOps make_ops() {
    TileOps ops;
    ops.f32 = typed_ops<F32>();
    ops.f64 = typed_ops<F64>();
    ops.widen_f16 = &widen_f16<Half>;
    ops.widen_bf16 = &widen_bf16<Half>;
    return ops;
}

}  // namespace
}  // namespace rowmax::cpu
