// Points in an order in which neighbours follow each other, under a tree of boxes: what kernels are given.
//
// Points are sorted by item and Morton code. 32 that follow each other are a leaf, 32 leaves a node, 32 nodes a node of
// the next level. Nodes are numbered as tiles are (tile_at), so that they never cross items.
#pragma once

#include "cuda/kernels/point_arguments.hpp"

namespace rowmax::cuda {

inline constexpr int tree_fan_bits = 5;
inline constexpr int tree_fan = 1 << tree_fan_bits;
inline constexpr int most_tree_levels = 6;
inline constexpr int tree_threads = 256;
inline constexpr int search_threads = 128;

struct PointTree {
    PointSide side;
    const PointBounds* bounds = nullptr;         ///< [items]
    const std::uint32_t* keys = nullptr;         ///< [kept points]: item and Morton code, ascending
    int bits = 0;                                ///< of a coordinate in them
    const void* points = nullptr;                ///< [kept points][pitch], sorted
    const std::int32_t* numbers = nullptr;       ///< [kept points]: which of its item's kept points each is
    const void* boxes = nullptr;                 ///< of all levels: [least and largest of each coordinate][node]
    const std::int32_t* lowest = nullptr;        ///< the lowest number below each node
    std::int64_t before[most_tree_levels] = {};  ///< nodes of lower levels
    int levels = 0;

    /// A node of a level has 2^shift points below it; leaves are level 0.
    [[nodiscard]] static constexpr int shift(int level) { return tree_fan_bits * (level + 1); }
    [[nodiscard]] static constexpr std::int64_t points_below(int level) { return std::int64_t{1} << shift(level); }
    [[nodiscard]] constexpr std::int64_t nodes(int level) const {
        return (side.items.rows >> shift(level)) + side.items.count;
    }
    /// The first node of an item, and how many nodes so many points have.
    [[nodiscard]] static constexpr std::int64_t first_node(std::int64_t first_point, std::int64_t item, int level) {
        return (first_point >> shift(level)) + item;
    }
    [[nodiscard]] static constexpr std::int64_t nodes_for(std::int64_t points, int level) {
        return (points + points_below(level) - 1) >> shift(level);
    }
};

struct BoundArguments {
    PointSide side;
    std::int64_t dim = 0;
    PointBounds* bounds = nullptr;
};

struct MortonArguments {
    PointSide side;
    const PointBounds* bounds = nullptr;
    std::int64_t dim = 0;
    int bits = 0;  ///< of a coordinate
    std::uint32_t* keys = nullptr;
    std::uint32_t* numbers = nullptr;
};

struct SortedPointsArguments {
    PointSide side;
    const std::uint32_t* sorted = nullptr;
    void* points = nullptr;
    std::int32_t* numbers = nullptr;
};

struct BoxArguments {
    PointTree tree;
    int level = 0;
    void* boxes = nullptr;
    std::int32_t* lowest = nullptr;
};

struct SearchArguments {
    PointTree sources;
    PointTree targets;
    std::int64_t slices = 1;  ///< of the results; all but the first are left empty
    void* distance = nullptr;
    std::int32_t* index = nullptr;
};

struct ListSearchArguments {
    PointTree sources;
    PointTree targets;
    ListArguments lists;
};

/// By dimensions, from 1 to held_dims.
struct PointTreeKernels {
    const void* bound[held_dims + 1] = {};
    const void* morton[held_dims + 1] = {};
    const void* sorted[held_dims + 1] = {};
    const void* leaves[held_dims + 1] = {};
    const void* nodes[held_dims + 1] = {};
    // By metric too.
    const void* search[2][held_dims + 1] = {};
    const void* list[2][held_dims + 1] = {};
};
extern const PointTreeKernels point_tree_kernels_f32;
extern const PointTreeKernels point_tree_kernels_f64;

}  // namespace rowmax::cuda
