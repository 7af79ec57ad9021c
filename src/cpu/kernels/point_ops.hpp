// What one instruction set offers for distances between points: a table of functions, filled in by one file under
// inst/. Plain data only, because those files are compiled for CPUs that the rest of the library may not run on.
//
// A distance is defined to the bit, for every row of the table, every layout and both ways to search: the terms of 16
// consecutive coordinates are added in order, starting from zero ((p - r)^2 by fused multiply-add, |p - r| by
// addition); 16 such sums are added in order, and these sums in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {

inline constexpr std::int64_t dims_of_run = 16;
inline constexpr std::int64_t dims_of_block = 16 * dims_of_run;

/// Points of a leaf of a tree, and children of a node.
inline constexpr int tree_fan = 16;
/// The index of what only fills a leaf or a node.
inline constexpr std::int32_t no_point = INT32_MAX;
inline constexpr int most_tree_levels = 8;

/// Points as rows of numbers, `stride` apart.
template <class Value>
struct PointRows {
    const Value* data = nullptr;
    std::int64_t stride = 0;
    std::int64_t count = 0;
};

/// The nearest targets of one source so far: NaN first, then ascending, the lowest index among equals.
template <class Value>
struct NeighbourList {
    Value* distance = nullptr;      ///< [k]
    std::int32_t* index = nullptr;  ///< [k]
    std::int64_t k = 0;
    std::int64_t count = 0;
};

/// Targets `first` .. `first + count` against a panel of sources.
template <class Value>
struct PointFold {
    const Value* panel = nullptr;  ///< [dim][panel_lanes] sources
    std::int64_t dim = 0;
    PointRows<Value> targets;
    std::int64_t first = 0;  ///< number of the first of `targets`
};

/// The other direction of a fold: the nearest source of each target, for every lane on its own.
template <class Value>
struct PointColumns {
    Value* least = nullptr;          ///< [target][lanes]
    Index<Value>* source = nullptr;  ///< the same: the number of lane 0 of the vector that held it
    Index<Value> first = 0;          ///< number of the panel's first source
};

/// A tree over points without NaN and infinities, of 16 children a node: level 0 holds nodes over leaves, the last one
/// the root. Where there are no 16 children, boxes are empty and indices no_point.
template <class Value>
struct PointTree {
    struct Level {
        const Value* boxes = nullptr;          ///< [node][dim][2][tree_fan]: least and largest coordinates of children
        const std::int32_t* lowest = nullptr;  ///< [node][tree_fan]: lowest index below each
    };
    Level level[most_tree_levels];
    int levels = 0;
    std::int64_t dim = 0;
    std::int64_t leaves = 0;
    const Value* points = nullptr;        ///< [leaf][dim][tree_fan]
    const std::int32_t* index = nullptr;  ///< [leaf][tree_fan]
};

/// Sources in an order in which neighbours follow each other, as leaves.
template <class Value>
struct TreeQueries {
    const Value* points = nullptr;  ///< [leaf][dim][tree_fan]
    const std::int32_t* index = nullptr;
    std::int64_t first = 0;  ///< leaf
    std::int64_t end = 0;
    std::int64_t k = 1;
    Value* distance = nullptr;        ///< [source index, k]
    std::int32_t* nearest = nullptr;  ///< the same; no_point: none
};

template <class Value>
struct TypedPointOps {
    std::int64_t lanes = 0;
    std::int64_t panel_lanes = 0;
    // One of each for Metric::l2_sq and Metric::l1.
    /// For finite points: lowers best[lane] and index[lane] to the first target that is nearer.
    void (*fold[2])(const PointFold<Value>&, Value* best, Index<Value>* index) = {};
    /// The same, and the other direction of the same distances.
    void (*fold_both[2])(const PointFold<Value>&, Value* best, Index<Value>* index, const PointColumns<Value>&) = {};
    /// Any points, targets in ascending order over calls. `limits` [panel_lanes] belongs to the lists: NaN at first.
    void (*fold_lists[2])(const PointFold<Value>&, NeighbourList<Value>* lists, Value* limits) = {};
    void (*search[2])(const PointTree<Value>&, const TreeQueries<Value>&) = {};
};

struct PointOps {
    TypedPointOps<float> f32;
    TypedPointOps<double> f64;
};

}  // namespace rowmax::cpu
