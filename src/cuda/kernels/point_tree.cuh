// Builds the tree of boxes over points: their order, their leaves, and the nodes above.
#pragma once

#include "cuda/kernels/point_distance.cuh"
#include "cuda/kernels/point_tree_arguments.hpp"
#include "cuda/kernels/stored_numbers.cuh"

namespace rowmax::cuda {

/// A point of C coordinates in memory.
template <class Value, int C>
using HeldPoint = Pack<Value, C == 3 ? 4 : C>;

__device__ __forceinline__ std::int64_t tree_thread() {
    return std::int64_t{blockIdx.x} * tree_threads + threadIdx.x;
}
/// Kept points of a side, wherever their items are.
__device__ __forceinline__ std::int64_t kept_points(const PointSide& side) {
    return side.rank(side.items.rows);
}

/// Integers in the order of floats.
__device__ __forceinline__ std::uint32_t ordered(float x) {
    const std::uint32_t bits = __float_as_uint(x);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}
__device__ __forceinline__ float from_ordered(std::uint32_t bits) {
    return __uint_as_float((bits >> 31) != 0 ? bits & 0x7fffffffU : ~bits);
}

/// One thread a kept point. The order of points need not be exact: coordinates count as float32.
template <class Value, int C>
__global__ void __launch_bounds__(tree_threads) bound_points(const __grid_constant__ BoundArguments call) {
    const std::int64_t last = kept_points(call.side) - 1;
    const std::int64_t mine = tree_thread();
    if (tree_thread() - threadIdx.x % 32 > last) return;  // the whole warp
    const std::int64_t number = mine < last ? mine : last;
    const std::int64_t item = call.side.items.item_of(call.side.row(number));
    const auto point = static_cast<const HeldPoint<Value, C>*>(call.side.data)[number];
    std::uint32_t low[C];
    std::uint32_t high[C];
    bool odd = false;
#pragma unroll
    for (int k = 0; k < C; ++k) {
        odd = odd || !(fabs(point.at[k]) < infinite<Value>());
        high[k] = ordered(static_cast<float>(point.at[k]));
        low[k] = ~high[k];
    }
    if (item < 0) return;  // a row of no item; these are at the ends
    const unsigned here = __activemask();
    PointBounds& bounds = call.bounds[item];
    if (odd) bounds.odd = 1;
    // Neighbours share an item nearly always: one of them speaks for all of its warp.
    const bool together = here == all_lanes && __all_sync(all_lanes, item == from_lane(item, 0));
    if (!together) {
#pragma unroll
        for (int k = 0; k < C; ++k) {
            atomicMax(&bounds.low[k], low[k]);
            atomicMax(&bounds.high[k], high[k]);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < C; ++k) {
        const std::uint32_t least = __reduce_max_sync(all_lanes, low[k]);
        const std::uint32_t most = __reduce_max_sync(all_lanes, high[k]);
        if (threadIdx.x % 32 != 0) continue;
        if (least > bounds.low[k]) atomicMax(&bounds.low[k], least);
        if (most > bounds.high[k]) atomicMax(&bounds.high[k], most);
    }
}

/// Item and Morton code of a point; one outside of the bounds counts as at their edge. Coordinates count as float32.
template <class Value, int C>
__device__ __forceinline__ std::uint32_t morton_key(const HeldPoint<Value, C>& point, const PointBounds& bounds,
                                                    std::int64_t item, int bits) {
    float extent = 0;
#pragma unroll
    for (int k = 0; k < C; ++k) {
        extent = fmaxf(extent, from_ordered(bounds.high[k]) - from_ordered(~bounds.low[k]));
    }
    const float cells = static_cast<float>((1U << bits) - 1);
    const float scale = extent > 0 && extent < infinite<float>() ? cells / extent : 0;
    std::uint32_t code = 0;
    std::uint32_t cell[C];
#pragma unroll
    for (int k = 0; k < C; ++k) {
        const float at = (static_cast<float>(point.at[k]) - from_ordered(~bounds.low[k])) * scale;
        cell[k] = at > 0 ? static_cast<std::uint32_t>(fminf(at, cells)) : 0;
    }
    for (int bit = bits - 1; bit >= 0; --bit) {
#pragma unroll
        for (int k = 0; k < C; ++k) code = 2 * code | ((cell[k] >> bit) & 1U);
    }
    return (static_cast<std::uint32_t>(item) << (bits * C)) | code;
}

/// One thread a row of the storage: item and Morton code of a kept point, and behind these what is none.
template <class Value, int C>
__global__ void __launch_bounds__(tree_threads) morton_keys(const __grid_constant__ MortonArguments call) {
    const std::int64_t number = tree_thread();
    if (number >= call.side.items.rows) return;
    const bool is_point = number < kept_points(call.side);
    const std::int64_t item = is_point ? call.side.items.item_of(call.side.row(number)) : -1;
    call.numbers[number] = static_cast<std::uint32_t>(number);
    if (item < 0) {
        // Rows before the first item stay before it, those behind the last behind it.
        const bool before = is_point && call.side.row(number) < call.side.items.first(0);
        call.keys[number] = before ? 0 : 0xffffffffU;
        return;
    }
    const auto point = static_cast<const HeldPoint<Value, C>*>(call.side.data)[number];
    call.keys[number] = morton_key<Value, C>(point, call.bounds[item], item, call.bits);
}

/// One thread a kept point.
template <class Value, int C>
__global__ void __launch_bounds__(tree_threads) write_sorted(const __grid_constant__ SortedPointsArguments call) {
    const std::int64_t at = tree_thread();
    if (at >= kept_points(call.side)) return;
    const std::int64_t number = call.sorted[at];
    const std::int64_t item = call.side.items.item_of(call.side.row(number));
    static_cast<HeldPoint<Value, C>*>(call.points)[at] =
        static_cast<const HeldPoint<Value, C>*>(call.side.data)[number];
    call.numbers[at] = item < 0 ? 0 : static_cast<std::int32_t>(number - call.side.first(item));
}

/// The box of what the lanes of a warp hold, and its lowest number: written by the first.
template <class Value, int C>
__device__ __forceinline__ void write_box(const BoxArguments& call, std::int64_t node, Value (&low)[C],
                                          Value (&high)[C], std::int32_t lowest) {
    const std::int64_t nodes = call.tree.nodes(call.level);
    Value* boxes = static_cast<Value*>(call.boxes) + call.tree.before[call.level] * 2 * C;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
#pragma unroll
        for (int k = 0; k < C; ++k) {
            low[k] = fmin(low[k], exchange(low[k], step));
            high[k] = fmax(high[k], exchange(high[k], step));
        }
        const std::int32_t other = exchange(lowest, step);
        lowest = other < lowest ? other : lowest;
    }
    if (threadIdx.x % 32 != 0) return;
#pragma unroll
    for (int k = 0; k < C; ++k) {
        boxes[2 * k * nodes + node] = low[k];
        boxes[(2 * k + 1) * nodes + node] = high[k];
    }
    call.lowest[call.tree.before[call.level] + node] = lowest;
}

/// One warp a leaf.
template <class Value, int C>
__global__ void __launch_bounds__(tree_threads) box_leaves(const __grid_constant__ BoxArguments call) {
    const PointSide& side = call.tree.side;
    const std::int64_t node = tree_thread() / 32;
    if (node >= call.tree.nodes(0)) return;
    const PointTile here = tile_at(side, side.items.count, node, tree_fan);
    const std::int64_t points = side.size(here.item);
    if (here.begin >= points) return;
    const std::int64_t lane = threadIdx.x % 32;
    const std::int64_t at = side.first(here.item) + (here.begin + lane < points ? here.begin + lane : points - 1);
    const auto point = static_cast<const HeldPoint<Value, C>*>(call.tree.points)[at];
    Value low[C];
    Value high[C];
#pragma unroll
    for (int k = 0; k < C; ++k) low[k] = high[k] = point.at[k];
    write_box(call, node, low, high, call.tree.numbers[at]);
}

/// One warp a node over nodes.
template <class Value, int C>
__global__ void __launch_bounds__(tree_threads) box_nodes(const __grid_constant__ BoxArguments call) {
    const PointTree& tree = call.tree;
    const std::int64_t node = tree_thread() / 32;
    if (node >= tree.nodes(call.level)) return;
    const std::int64_t below = PointTree::points_below(call.level);
    const PointTile here = tile_at(tree.side, tree.side.items.count, node, below);
    const std::int64_t points = tree.side.size(here.item);
    if (here.begin >= points) return;
    const int level = call.level - 1;
    const std::int64_t first = here.begin / PointTree::points_below(level);
    const std::int64_t last = PointTree::nodes_for(points, level) - 1;
    const std::int64_t mine = first + threadIdx.x % 32;
    const std::int64_t child =
        tree.first_node(tree.side.first(here.item), here.item, level) + (mine < last ? mine : last);
    const std::int64_t children = tree.nodes(level);
    const Value* boxes = static_cast<const Value*>(tree.boxes) + tree.before[level] * 2 * C;
    Value low[C];
    Value high[C];
#pragma unroll
    for (int k = 0; k < C; ++k) {
        low[k] = boxes[2 * k * children + child];
        high[k] = boxes[(2 * k + 1) * children + child];
    }
    write_box(call, node, low, high, tree.lowest[tree.before[level] + child]);
}

}  // namespace rowmax::cuda
