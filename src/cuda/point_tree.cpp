#include "cuda/point_tree.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/load_selection.hpp"

namespace rowmax::cuda {

namespace {

constexpr std::int64_t largest_key = 0xffffffff;

/// Bits of a coordinate in the keys that points are sorted by, below the item's number.
int coordinate_bits(const core::PointParams& params) {
    int items = 0;
    while ((params.p.count >> items) != 0) ++items;
    return std::min((32 - items) / static_cast<int>(params.dim), 24);
}

std::int64_t tree_blocks(std::int64_t count) {
    return (count + tree_threads - 1) / tree_threads;
}

}  // namespace

bool tree_can(const core::PointParams& params) {
    constexpr int fewest_bits = 6;
    return params.dim <= held_dims && params.p.count > 0 && params.p.count < (std::int64_t{1} << 26) &&
           coordinate_bits(params) >= fewest_bits;
}

bool searched_by_tree(const core::PointParams& params, std::int64_t k) {
    const double fewest_pairs = k == 1 ? 3e8 : 1e6;  // lists take longer to fill from every pair
    if (params.search == PointSearch::brute || !tree_can(params)) return false;
    if (params.search == PointSearch::tree) return true;
    const double pairs = static_cast<double>(params.p.total_rows) * static_cast<double>(params.r.total_rows);
    return pairs / static_cast<double>(params.p.count) >= fewest_pairs;
}

const PointTreeKernels& tree_kernels_of(const core::PointParams& params) {
    return params.dtype == DType::f64 ? point_tree_kernels_f64 : point_tree_kernels_f32;
}

PointTreeLayout::PointTreeLayout(const core::PointParams& params, const core::Segments& side, ScratchLayout& scratch)
    : params_(&params), side_(&side) {
    while (levels_ < most_tree_levels && PointTree::nodes_for(side.max_length, levels_ - 1) > tree_fan) ++levels_;
    const auto value = point_value_bytes(params);
    const std::int64_t rows = side.total_rows;
    const std::int64_t pitch = params.dim == 3 ? 4 : params.dim;
    std::int64_t nodes = 0;
    for (int level = 0; level < levels_; ++level) nodes += (rows >> PointTree::shift(level)) + side.count;
    bounds_ = scratch.take_array<PointBounds>(side.count);
    if (rows > 0) sort_ = scratch.take(sort_bytes(rows, largest_key));
    points_ = scratch.take(static_cast<std::size_t>(rows * pitch) * value);
    numbers_ = scratch.take_array<std::int32_t>(rows);
    boxes_ = scratch.take(static_cast<std::size_t>(nodes * 2 * params.dim) * value);
    lowest_ = scratch.take_array<std::int32_t>(nodes);
}

SortLists PointTreeLayout::sort(std::byte* memory, const PointSide& side, const PointBounds* bounds) const {
    const PointTreeKernels& kernels = tree_kernels_of(*params_);
    const std::int64_t rows = side_->total_rows;
    const SortLists lists = lists_to_sort(memory + sort_, rows);
    const MortonArguments keys{side, bounds, params_->dim, coordinate_bits(*params_), lists.keys, lists.numbers};
    launch(kernels.morton[params_->dim], {tree_blocks(rows), tree_threads}, params_->place, &keys);
    return sort_by_key(memory + sort_, rows, largest_key, params_->place);
}

PointTree PointTreeLayout::make(std::byte* memory, const PointSide& side) const {
    const PointTreeKernels& kernels = tree_kernels_of(*params_);
    const std::int64_t rows = side_->total_rows;
    const auto dim = static_cast<std::size_t>(params_->dim);
    auto* bounds = part_at<PointBounds>(memory, bounds_);
    check(cudaMemsetAsync(bounds, 0, static_cast<std::size_t>(side_->count) * sizeof(PointBounds),
                          static_cast<cudaStream_t>(params_->place.stream)),
          "cudaMemsetAsync");
    PointTree tree;
    tree.side = side;
    tree.bounds = bounds;
    tree.points = memory + points_;
    tree.numbers = part_at<std::int32_t>(memory, numbers_);
    tree.boxes = memory + boxes_;
    tree.lowest = part_at<std::int32_t>(memory, lowest_);
    tree.levels = levels_;
    for (int level = 1; level < levels_; ++level) tree.before[level] = tree.before[level - 1] + tree.nodes(level - 1);
    if (rows == 0) return tree;
    const BoundArguments bound{side, params_->dim, bounds};
    launch(kernels.bound[dim], {tree_blocks(rows), tree_threads}, params_->place, &bound);
    const SortLists order = sort(memory, side, bounds);
    tree.keys = order.keys;
    tree.bits = coordinate_bits(*params_);
    const SortedPointsArguments sorted{side, order.numbers, memory + points_, part_at<std::int32_t>(memory, numbers_)};
    launch(kernels.sorted[dim], {tree_blocks(rows), tree_threads}, params_->place, &sorted);
    for (int level = 0; level < levels_; ++level) {
        const BoxArguments boxes{tree, level, memory + boxes_, part_at<std::int32_t>(memory, lowest_)};
        launch(level == 0 ? kernels.leaves[dim] : kernels.nodes[dim],
               {tree_blocks(tree.nodes(level) * 32), tree_threads}, params_->place, &boxes);
    }
    return tree;
}

void load_point_tree_kernels() {
    for (const PointTreeKernels* kernels : {&point_tree_kernels_f32, &point_tree_kernels_f64}) {
        for (std::size_t dim = 1; dim <= held_dims; ++dim) {
            for (const void* kernel :
                 {kernels->bound[dim], kernels->morton[dim], kernels->sorted[dim], kernels->leaves[dim],
                  kernels->nodes[dim], kernels->search[0][dim], kernels->search[1][dim]}) {
                load_kernel(kernel);
            }
        }
    }
}

}  // namespace rowmax::cuda
