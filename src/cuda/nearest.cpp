// Nearest points in a device's memory: every pair or a tree, and what is made of the distances.
#include <cuda_runtime_api.h>
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

bool points_are_held(const PointParams& params) {
    return params.dim <= held_dims;
}

/// Whether every pair is looked at once, for both directions.
bool by_pairs(const PointParams& params) {
    return !points_are_held(params) && params.dtype != DType::f64;
}

/// Parts of the targets that different thread blocks take: as many as fill the device, none shorter than is worth it.
std::int64_t slices_for(const PointParams& params, std::int64_t tiles, const core::Segments& targets) {
    constexpr std::int64_t blocks_a_processor = 8;
    constexpr std::int64_t shortest = 256;
    const std::int64_t wanted = device_info(params.place.ordinal).processors * blocks_a_processor;
    const std::int64_t most = std::max<std::int64_t>(targets.max_length / shortest, 1);
    return std::clamp<std::int64_t>((wanted + tiles - 1) / std::max<std::int64_t>(tiles, 1), 1, most);
}

std::int64_t source_tiles(const PointParams& params, const core::Segments& sources) {
    return tiles_of(sources.total_rows, sources.count, points_are_held(params) ? held_tile : square_tile);
}

/// How far apart rows lie for the search: as they are where that will do, so that nobody has to copy them.
std::int64_t search_pitch(const PointParams& params) {
    if (points_are_held(params)) return searched_by_tree(params, 1) ? held_pitch(params) : params.dim;
    return by_pairs(params) ? (params.dim + 3) / 4 * 4 : params.dim;
}

/// Scratch memory of one direction.
struct DirectionLayout {
    bool wanted = false;
    std::int64_t slices = 1;
    std::size_t distance = 0;
    std::size_t index = 0;
    std::size_t keys = 0;
    std::size_t parts = 0;  ///< sums of runs

    DirectionLayout(const PointParams& params, const core::Segments& sources, const core::Segments& targets,
                    const core::NearestOutputs& to, bool sums, ScratchLayout& scratch)
        : wanted(to.wanted) {
        if (!wanted) return;
        if (by_pairs(params)) {
            keys = scratch.take_array<unsigned long long>(sources.total_rows);
        } else {
            slices = slices_for(params, source_tiles(params, sources), targets);
            distance = scratch.take(static_cast<std::size_t>(slices * sources.total_rows) * point_value_bytes(params));
            index = scratch.take_array<std::int32_t>(slices * sources.total_rows);
        }
        if (sums) parts = scratch.take_array<double>(tiles_of(sources.total_rows, sources.count, positions_of_run));
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
        : p(params, params.p, true, search_pitch(params), scratch),
          r(params, params.r, true, search_pitch(params), scratch),
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
        WriteNearestArguments of_p = results(layout_.of_p, to_.p, p, r);
        WriteNearestArguments of_r = results(layout_.of_r, to_.r, r, p);
        if (by_pairs(params_)) {
            compare_pairs(of_p.found);
        } else {
            compare(of_p.found, of_r.found);
        }
        write(of_p, of_r);
        if (to_.value == nullptr || params_.p.count == 0) return;
        const ChamferArguments arguments{p, r, of_p.parts, of_r.parts, to_.mean, to_.value};
        launch(kernels_.chamfer, {point_blocks(params_.p.count * 32), point_threads}, params_.place, &arguments);
    }

  private:
    /// Where a direction's search leaves what it finds, and what becomes of it.
    [[nodiscard]] WriteNearestArguments results(const DirectionLayout& layout, const core::NearestOutputs& to,
                                                const PointSide& sources, const PointSide& targets) const {
        std::byte* memory = scratch_.data();
        WriteNearestArguments made{{sources, targets}};
        if (!layout.wanted) return made;
        made.found.dim = params_.dim;
        made.found.slices = layout.slices;
        made.found.distance = memory + layout.distance;
        made.found.index = part_at<std::int32_t>(memory, layout.index);
        if (by_pairs(params_)) made.keys = part_at<unsigned long long>(memory, layout.keys);
        made.distance = to.distance;
        made.index = to.index;
        made.none = to.none;
        if (to_.value != nullptr) made.parts = part_at<double>(memory, layout.parts);
        return made;
    }

    [[nodiscard]] std::size_t metric() const { return params_.metric == Metric::l2_sq ? 0 : 1; }

    /// Every pair once: P's points are the sources of both directions.
    void compare_pairs(const NearestArguments& of_p) const {
        PairArguments pairs{of_p.sources, of_p.targets};
        pairs.dim = params_.dim;
        pairs.tiles = tiles_of(params_.p.total_rows, params_.p.count, pair_sources);
        pairs.slices = slices_for(params_, pairs.tiles, params_.r);
        pairs.of_sources = part_at<unsigned long long>(scratch_.data(), layout_.of_p.keys);
        if (to_.r.wanted) pairs.of_targets = part_at<unsigned long long>(scratch_.data(), layout_.of_r.keys);
        clear_keys(pairs.of_sources, params_.p.total_rows);
        if (to_.r.wanted) clear_keys(pairs.of_targets, params_.r.total_rows);
        if (params_.p.total_rows == 0 || params_.r.total_rows == 0) return;
        constexpr std::int64_t coordinates_of_block = 256;
        launch(kernels_.pairs[metric()][params_.dim > coordinates_of_block ? 1 : 0],
               {pairs.tiles * pairs.slices, pair_threads, pair_shared_bytes}, params_.place, &pairs);
    }
    void clear_keys(unsigned long long* keys, std::int64_t count) const {
        check(cudaMemsetAsync(keys, 0xff, static_cast<std::size_t>(count) * sizeof(*keys),
                              static_cast<cudaStream_t>(params_.place.stream)),
              "cudaMemsetAsync");
    }

    /// By trees, and every pair of what these leave.
    void compare(NearestArguments& of_p, NearestArguments& of_r) const {
        if (layout_.tree_p) {
            const PointTree p = layout_.tree_p->make(scratch_.data(), of_p.sources);
            const PointTree r = layout_.tree_r->make(scratch_.data(), of_p.targets);
            if (layout_.of_p.wanted) walk(of_p, p, r);
            if (layout_.of_r.wanted) walk(of_r, r, p);
        }
        Both<NearestArguments> both{{of_p, of_r}};
        std::int64_t blocks[2] = {};
        for (int i = 0; i < 2; ++i) {
            NearestArguments& search = both.of[i];
            if (search.distance == nullptr) continue;
            search.tiles = source_tiles(params_, i == 0 ? params_.p : params_.r);
            if (search.sources.items.rows > 0) blocks[i] = search.tiles * search.slices;
        }
        both.first = blocks[0];
        const bool held = points_are_held(params_);
        run_both(kernels_.nearest[metric()][held ? params_.dim : 0], blocks, held ? held_threads : point_threads, both);
    }

    /// By the tree of the targets; items that it does not take are left to the search that follows.
    void walk(NearestArguments& search, const PointTree& sources, const PointTree& targets) const {
        if (sources.side.items.rows == 0) return;
        search.source_bounds = sources.bounds;
        search.target_bounds = targets.bounds;
        const SearchArguments arguments{sources, targets, search.slices, search.distance, search.index};
        const std::int64_t threads = sources.nodes(0) * 32;
        launch(tree_kernels_of(params_).search[metric()][params_.dim],
               {(threads + search_threads - 1) / search_threads, search_threads}, params_.place, &arguments);
    }

    void write(const WriteNearestArguments& of_p, const WriteNearestArguments& of_r) const {
        Both<WriteNearestArguments> both{{of_p, of_r}};
        std::int64_t blocks[2] = {};
        for (int i = 0; i < 2; ++i) {
            const WriteNearestArguments& direction = both.of[i];
            const PointItems& items = direction.found.sources.items;
            const bool wanted =
                direction.distance != nullptr || direction.index != nullptr || direction.parts != nullptr;
            if (wanted && items.rows > 0) blocks[i] = runs_of_points(items);
        }
        both.first = blocks[0];
        run_both(kernels_.write_nearest, blocks, point_threads, both);
    }

    template <class Job>
    void run_both(const void* kernel, const std::int64_t (&blocks)[2], int threads, const Both<Job>& both) const {
        if (blocks[0] + blocks[1] == 0) return;
        launch(kernel, {blocks[0] + blocks[1], threads}, params_.place, &both);
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
