#include "cuda/nearest_lists.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/point_tree.hpp"
#include "cuda/points.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

using core::NearestOutputs;
using core::PointParams;

struct ListLayout {
    ScratchLayout scratch;
    PointSideLayout p;
    PointSideLayout r;
    std::size_t distance = 0;
    std::size_t numbers = 0;
    std::optional<PointTreeLayout> tree_p;
    std::optional<PointTreeLayout> tree_r;

    ListLayout(const PointParams& params, const NearestOutputs& to)
        : p(params, params.p, true, held_pitch(params), scratch),
          r(params, params.r, true, held_pitch(params), scratch) {
        if (to.k > std::numeric_limits<std::int32_t>::max()) {
            throw Error(ErrorCode::not_implemented, fmt::format("k = {} on a CUDA device", to.k));
        }
        const std::int64_t places = params.p.total_rows * to.k;
        distance = scratch.take(static_cast<std::size_t>(places) * point_value_bytes(params));
        numbers = scratch.take_array<std::int32_t>(places);
        if (!searched_by_tree(params, to.k)) return;
        tree_p.emplace(params, params.p, scratch);
        tree_r.emplace(params, params.r, scratch);
    }
};

}  // namespace

std::size_t list_nearest_workspace(const PointParams& params, const NearestOutputs& to) {
    const CurrentDevice current(params.place.ordinal);
    return ListLayout(params, to).scratch.bytes();
}

void list_nearest(const PointParams& params, const NearestOutputs& to) {
    if (params.p.total_rows == 0) return;
    const CurrentDevice current(params.place.ordinal);
    wake_device(params.place.ordinal);
    const ListLayout layout(params, to);
    const Scratch scratch(params.place.workspace, layout.scratch.bytes(), params.place.stream);
    const PointKernels& kernels = point_kernels_of(params);
    const std::size_t metric = params.metric == Metric::l2_sq ? 0 : 1;
    ListArguments lists;
    lists.sources = layout.p.make(scratch.data());
    lists.targets = layout.r.make(scratch.data());
    lists.dim = params.dim;
    lists.k = to.k;
    lists.distance = scratch.data() + layout.distance;
    lists.numbers = part_at<std::int32_t>(scratch.data(), layout.numbers);
    lists.results = to.distance;
    lists.index = to.index;
    launch(kernels.clear_lists, {point_blocks(params.p.total_rows * to.k), point_threads}, params.place, &lists);
    if (layout.tree_p) {
        const ListSearchArguments walk{layout.tree_p->make(scratch.data(), lists.sources),
                                       layout.tree_r->make(scratch.data(), lists.targets), lists};
        const std::int64_t threads = walk.sources.nodes(0) * 32;
        launch(tree_kernels_of(params).list[metric][params.dim],
               {(threads + search_threads - 1) / search_threads, search_threads}, params.place, &walk);
        lists.source_bounds = walk.sources.bounds;
        lists.target_bounds = walk.targets.bounds;
    }
    // Every pair: all, or what the tree left.
    launch(kernels.list[metric], {tiles_of(params.p.total_rows, params.p.count, square_tile), point_threads},
           params.place, &lists);
}

}  // namespace rowmax::cuda
