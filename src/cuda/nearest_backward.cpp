#include "cuda/nearest_backward.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/index_arguments.hpp"
#include "cuda/ordered_sums.hpp"
#include "cuda/points.hpp"
#include "cuda/radix_sort.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

using core::ChosenPoints;
using core::PointGradients;
using core::PointParams;

std::int64_t choices_of(const core::Segments& side, const ChosenPoints& chosen) {
    return chosen.index == nullptr ? 0 : side.total_rows * chosen.k;
}

/// Scratch memory. The gradients of both sides take turns with what each needs.
struct PointGradientLayout {
    ScratchLayout scratch;
    PointSideLayout p;
    PointSideLayout r;
    std::size_t weights_p = 0;
    std::size_t weights_r = 0;
    std::size_t starts = 0;
    std::size_t sort = 0;
    SharedRowsLayout shared;

    PointGradientLayout(const PointParams& params, const PointGradients& gradients)
        : p(params, params.p, false, scratch), r(params, params.r, false, scratch) {
        const std::size_t size = point_value_bytes(params);
        if (gradients.p.of_item != nullptr) weights_p = scratch.take(static_cast<std::size_t>(params.p.count) * size);
        if (gradients.r.of_item != nullptr) weights_r = scratch.take(static_cast<std::size_t>(params.r.count) * size);
        const std::int64_t of_p = choices_of(params.p, gradients.p);
        const std::int64_t of_r = choices_of(params.r, gradients.r);
        const std::int64_t most = std::max(of_p, of_r);
        if (most > (std::int64_t{1} << 31) - 1) {
            throw Error(ErrorCode::not_implemented,
                        fmt::format("gradients from {} choices of points: fewer than 2^31", most));
        }
        starts = scratch.take_array<std::int64_t>(std::max(params.p.total_rows, params.r.total_rows) + 1);
        std::size_t bytes = 0;
        if (of_p > 0) bytes = sort_bytes(of_p, params.r.total_rows);
        if (of_r > 0) bytes = std::max(bytes, sort_bytes(of_r, params.p.total_rows));
        sort = scratch.take(bytes);
        shared = layout_of_shared_rows(scratch, most, params.dim, size);
    }
};

class PointGradientPass {
  public:
    PointGradientPass(const PointParams& params, const PointGradients& gradients)
        : params_(params),
          gradients_(gradients),
          kernels_(point_kernels_of(params)),
          current_(params.place.ordinal),
          layout_(params, gradients),
          scratch_(params.place.workspace, layout_.scratch.bytes(), params.place.stream) {
        wake_device(params.place.ordinal);
    }

    void run() const {
        const PointSide p = layout_.p.make(scratch_.data());
        const PointSide r = layout_.r.make(scratch_.data());
        const PointChoices by_p = weighed(gradients_.p, params_.p, layout_.weights_p);
        const PointChoices by_r = weighed(gradients_.r, params_.r, layout_.weights_r);
        if (gradients_.grad_p != nullptr) add_up(p, r, by_p, by_r, gradients_.grad_p);
        if (gradients_.grad_r != nullptr) add_up(r, p, by_r, by_p, gradients_.grad_r);
    }

  private:
    [[nodiscard]] PointChoices weighed(const ChosenPoints& chosen, const core::Segments& side, std::size_t at) const {
        PointChoices choices{chosen.index, chosen.k, chosen.weight, nullptr};
        if (chosen.index == nullptr || chosen.of_item == nullptr) return choices;
        const WeighArguments arguments{side, chosen.of_item, chosen.mean, scratch_.data() + at};
        if (side.count > 0) launch(kernels_.weigh, {side.count, point_threads}, params_.place, &arguments);
        choices.of_item = arguments.to;
        return choices;
    }

    /// The choices that points of `own` received, by row.
    void sort(const PointSide& own, const PointSide& other, PointGradientArguments& arguments) const {
        const PointChoices& received = arguments.received;
        const std::int64_t count = other.items.rows * received.k;
        std::byte* memory = scratch_.data() + layout_.sort;
        SortLists lists{nullptr, nullptr, 0};
        if (count > 0) {
            lists = lists_to_sort(memory, count);
            const NumberChoicesArguments numbers{other.items, own.items,  received.index,
                                                 received.k,  lists.keys, lists.numbers};
            launch(point_item_kernels.number_choices, {point_blocks(count), point_threads}, params_.place, &numbers);
            lists = sort_by_key(memory, count, own.items.rows, params_.place);
        }
        const IndexKeys keys{lists.keys, lists.numbers, 1, count, own.items.rows};
        auto* starts = part_at<std::int64_t>(scratch_.data(), layout_.starts);
        const WriteGridArguments grid{keys, starts, nullptr};
        launch(index_kernels.write_starts, {(keys.starts() + index_threads - 1) / index_threads, index_threads},
               params_.place, &grid);
        arguments.starts = starts;
        arguments.choices = lists.numbers;
    }

    void add_up(const PointSide& own, const PointSide& other, const PointChoices& made, const PointChoices& received,
                void* to) const {
        if (own.items.rows == 0) return;
        PointGradientArguments arguments;
        arguments.own = own.items;
        arguments.other = other.items;
        arguments.own_rows = own.data;
        arguments.other_rows = other.data;
        arguments.dim = params_.dim;
        arguments.squared = params_.metric == Metric::l2_sq;
        arguments.made = made;
        arguments.received = received;
        arguments.dtype = params_.dtype;
        arguments.to = to;
        std::int64_t terms = 0;
        if (received.index != nullptr) {
            terms = other.items.rows * received.k;
            sort(own, other, arguments);
        }
        const int pack = static_cast<int>(16 / point_value_bytes(params_));
        const int kind = params_.dim == 3 ? 1 : (params_.dim % pack == 0 ? 2 : 0);
        const int widths[] = {1, 3, pack};
        arguments.sums =
            plan_sums(layout_.shared, scratch_.data(), own.items.rows, params_.dim, widths[kind], params_.place);
        run_sums(kernels_.gradient[kind], arguments.sums, terms, &arguments, params_.place);
    }

    const PointParams& params_;
    const PointGradients& gradients_;
    const PointKernels& kernels_;
    CurrentDevice current_;
    PointGradientLayout layout_;
    Scratch scratch_;
};

}  // namespace

std::size_t nearest_backward_workspace(const PointParams& params, const PointGradients& gradients) {
    const CurrentDevice current(params.place.ordinal);
    return PointGradientLayout(params, gradients).scratch.bytes();
}

void nearest_backward(const PointParams& params, const PointGradients& gradients) {
    PointGradientPass(params, gradients).run();
}

}  // namespace rowmax::cuda
