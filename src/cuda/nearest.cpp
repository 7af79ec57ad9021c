// Nearest points in a device's memory: every pair or a tree, and what is made of the distances.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/point_backend.hpp"
#include "core/registry.hpp"
#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/nearest_backward.hpp"
#include "cuda/nearest_lists.hpp"
#include "cuda/point_tree.hpp"
#include "cuda/points.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

using core::ChamferOutputs;
using core::PointParams;

constexpr std::int64_t positions_of_a_run = 256;

bool points_are_held(const PointParams& params) {
    return params.dim <= held_dims;
}

std::int64_t source_tiles(const PointParams& params, const core::Segments& sources) {
    return tiles_of(sources.total_rows, sources.count, points_are_held(params) ? held_tile : square_tile);
}

/// Parts of the targets that different thread blocks take: as many as fill the device, none shorter than is worth it.
std::int64_t slices_of(const PointParams& params, const core::Segments& sources, const core::Segments& targets) {
    constexpr std::int64_t blocks_a_processor = 8;
    constexpr std::int64_t shortest = 256;
    const std::int64_t wanted = device_info(params.place.ordinal).processors * blocks_a_processor;
    const std::int64_t tiles = std::max<std::int64_t>(source_tiles(params, sources), 1);
    const std::int64_t most = std::max<std::int64_t>(targets.max_length / shortest, 1);
    return std::clamp<std::int64_t>((wanted + tiles - 1) / tiles, 1, most);
}

/// Scratch memory of one direction.
struct DirectionLayout {
    bool wanted = false;
    std::int64_t slices = 1;
    std::size_t distance = 0;
    std::size_t index = 0;
    std::size_t results = 0;  ///< distances that the caller does not want
    std::size_t parts = 0;    ///< sums of runs

    DirectionLayout(const PointParams& params, const core::Segments& sources, const core::Segments& targets,
                    const core::NearestOutputs& to, bool sums, ScratchLayout& scratch)
        : wanted(to.wanted) {
        if (!wanted) return;
        const std::size_t size = point_value_bytes(params);
        slices = slices_of(params, sources, targets);
        distance = scratch.take(static_cast<std::size_t>(slices * sources.total_rows) * size);
        index = scratch.take_array<std::int32_t>(slices * sources.total_rows);
        if (to.distance == nullptr) results = scratch.take(static_cast<std::size_t>(sources.total_rows) * size);
        if (sums) parts = scratch.take_array<double>(tiles_of(sources.total_rows, sources.count, positions_of_a_run));
    }
};

struct NearestLayout {
    ScratchLayout scratch;
    PointSideLayout p;
    PointSideLayout r;
    DirectionLayout of_p;
    DirectionLayout of_r;
    std::optional<PointTreeLayout> tree_p;
    std::optional<PointTreeLayout> tree_r;

    NearestLayout(const PointParams& params, const ChamferOutputs& to)
        : p(params, params.p, true, scratch),
          r(params, params.r, true, scratch),
          of_p(params, params.p, params.r, to.p, to.value != nullptr, scratch),
          of_r(params, params.r, params.p, to.r, to.value != nullptr, scratch) {
        if (!searched_by_tree(params, 1)) return;
        tree_p.emplace(params, params.p, scratch);
        tree_r.emplace(params, params.r, scratch);
    }
};

class NearestPass {
  public:
    NearestPass(const PointParams& params, const ChamferOutputs& to)
        : params_(params),
          to_(to),
          kernels_(point_kernels_of(params)),
          current_(params.place.ordinal),
          layout_(params, to),
          scratch_(params.place.workspace, layout_.scratch.bytes(), params.place.stream) {
        wake_device(params.place.ordinal);
    }

    void run() const {
        const PointSide p = layout_.p.make(scratch_.data());
        const PointSide r = layout_.r.make(scratch_.data());
        std::optional<PointTree> tree_p;
        std::optional<PointTree> tree_r;
        if (layout_.tree_p) {
            tree_p = layout_.tree_p->make(scratch_.data(), p);
            tree_r = layout_.tree_r->make(scratch_.data(), r);
        }
        const double* parts_p = direct(layout_.of_p, to_.p, {params_.p, p, tree_p}, {params_.r, r, tree_r});
        const double* parts_r = direct(layout_.of_r, to_.r, {params_.r, r, tree_r}, {params_.p, p, tree_p});
        if (to_.value == nullptr || params_.p.count == 0) return;
        const ChamferArguments arguments{p, r, parts_p, to_.r.wanted ? parts_r : nullptr, to_.mean, to_.value};
        launch(kernels_.chamfer, {point_blocks(params_.p.count * 32), point_threads}, params_.place, &arguments);
    }

  private:
    /// One side of a direction.
    struct End {
        const core::Segments& side;
        const PointSide& points;
        const std::optional<PointTree>& tree;
    };

    /// One direction, and the sums of its runs.
    const double* direct(const DirectionLayout& layout, const core::NearestOutputs& to, const End& sources,
                         const End& targets) const {
        const core::Segments& side = sources.side;
        if (!layout.wanted) return nullptr;
        std::byte* memory = scratch_.data();
        auto* parts = part_at<double>(memory, layout.parts);
        if (side.total_rows == 0) return parts;
        NearestArguments search{sources.points, targets.points};
        search.dim = params_.dim;
        search.tiles = source_tiles(params_, side);
        search.slices = layout.slices;
        search.distance = memory + layout.distance;
        search.index = part_at<std::int32_t>(memory, layout.index);
        if (sources.tree) walk(search, *sources.tree, *targets.tree);
        const auto& kernels = kernels_.nearest[params_.metric == Metric::l2_sq ? 0 : 1];
        const bool held = points_are_held(params_);
        launch(kernels[held ? params_.dim : 0], {search.tiles * search.slices, held ? held_threads : point_threads},
               params_.place, &search);
        void* distance = to.distance == nullptr ? memory + layout.results : to.distance;
        const WriteNearestArguments results{search, distance, to.index, to.none};
        launch(kernels_.write_nearest, {point_blocks(side.total_rows), point_threads}, params_.place, &results);
        if (to_.value == nullptr) return parts;
        const SumRunsArguments sums{sources.points.items, distance, parts};
        const std::int64_t runs = tiles_of(side.total_rows, side.count, positions_of_a_run);
        launch(kernels_.sum_runs, {point_blocks(runs * 32), point_threads}, params_.place, &sums);
        return parts;
    }

    /// By the tree of the targets; items that it does not take are left to the search that follows.
    void walk(NearestArguments& search, const PointTree& sources, const PointTree& targets) const {
        search.source_bounds = sources.bounds;
        search.target_bounds = targets.bounds;
        const SearchArguments arguments{sources, targets, search.slices, search.distance, search.index};
        const std::int64_t threads = sources.nodes(0) * 32;
        launch(tree_kernels_of(params_).search[params_.metric == Metric::l2_sq ? 0 : 1][params_.dim],
               {(threads + search_threads - 1) / search_threads, search_threads}, params_.place, &arguments);
    }

    const PointParams& params_;
    const ChamferOutputs& to_;
    const PointKernels& kernels_;
    CurrentDevice current_;
    NearestLayout layout_;
    Scratch scratch_;
};

void check_request(const PointParams& params, std::string_view kernel) {
    if (params.search == PointSearch::tree && params.p.count > 0 && !tree_can(params)) {
        throw Error(
            ErrorCode::not_implemented,
            fmt::format("search: a tree on a CUDA device takes at most {} coordinates and {} items, got {} and {}",
                        held_dims, 1 << 7, params.dim, params.p.count));
    }
    if (kernel.empty() || core::names(kernel, "cuda.sm80")) return;
    throw Error(ErrorCode::invalid_value,
                fmt::format("kernel: no kernel for points on a CUDA device is named '{}'", kernel));
}

void find_nearest(const PointParams& params, std::string_view kernel, const ChamferOutputs& to) {
    check_request(params, kernel);
    if (to.p.k > 1) return list_nearest(params, to.p);
    NearestPass(params, to).run();
}

std::size_t nearest_workspace(const PointParams& params, const ChamferOutputs& to) {
    if (to.p.k > 1) return list_nearest_workspace(params, to.p);
    const CurrentDevice current(params.place.ordinal);
    return NearestLayout(params, to).scratch.bytes();
}

constexpr core::PointBackend point_backend{&find_nearest, &nearest_backward, &nearest_workspace,
                                           &nearest_backward_workspace};

}  // namespace
}  // namespace rowmax::cuda

namespace rowmax::core {

const PointBackend* cuda_points() {
    return &cuda::point_backend;
}

}  // namespace rowmax::core
