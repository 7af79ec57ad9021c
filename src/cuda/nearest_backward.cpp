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

/// Scratch memory of both sides' gradients, which are made together.
struct PointGradientLayout {
    ScratchLayout scratch;
    PointSideLayout p;
    PointSideLayout r;
    std::int64_t choices = 0;  ///< that are received by points whose gradient is wanted
    std::int64_t rows = 0;     ///< of these
    std::size_t weights_p = 0;
    std::size_t weights_r = 0;
    std::size_t starts = 0;
    std::size_t sort = 0;
    SharedRowsLayout shared;

    PointGradientLayout(const PointParams& params, const PointGradients& gradients)
        : p(params, params.p, false, params.dim, scratch), r(params, params.r, false, params.dim, scratch) {
        const std::size_t size = point_value_bytes(params);
        if (gradients.p.of_item != nullptr) weights_p = scratch.take(static_cast<std::size_t>(params.p.count) * size);
        if (gradients.r.of_item != nullptr) weights_r = scratch.take(static_cast<std::size_t>(params.r.count) * size);
        if (gradients.grad_p != nullptr) {
            rows += params.p.total_rows;
            choices += choices_of(params.r, gradients.r);
        }
        if (gradients.grad_r != nullptr) {
            rows += params.r.total_rows;
            choices += choices_of(params.p, gradients.p);
        }
        constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
        if (choices > most || rows > most) {
            throw Error(ErrorCode::not_implemented,
                        fmt::format("gradients of {} points from {} choices: fewer than 2^31", rows, choices));
        }
        starts = scratch.take_array<std::int64_t>(rows + 1);
        if (choices > 0) sort = scratch.take(sort_bytes(choices, rows));
        shared = layout_of_shared_rows(scratch, choices, params.dim, size);
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
        if (layout_.rows == 0) return;
        const PointSide p = layout_.p.make(scratch_.data());
        const PointSide r = layout_.r.make(scratch_.data());
        PointChoices by_p{gradients_.p.index, gradients_.p.k, gradients_.p.weight, nullptr};
        PointChoices by_r{gradients_.r.index, gradients_.r.k, gradients_.r.weight, nullptr};
        weigh(by_p, by_r);
        PointGradientArguments arguments;
        arguments.dim = params_.dim;
        arguments.squared = params_.metric == Metric::l2_sq;
        arguments.dtype = params_.dtype;
        int sides = 0;
        const auto add = [&](const PointSide& own, const PointSide& other, const PointChoices& made,
                             const PointChoices& received, void* to) {
            if (to == nullptr || own.items.rows == 0) return;
            arguments.sides.of[sides++] = {own.items, other.items, own.data, other.data, made, received, to};
        };
        add(p, r, by_p, by_r, gradients_.grad_p);
        add(r, p, by_r, by_p, gradients_.grad_r);
        arguments.sides.first = arguments.sides.of[0].own.rows;
        sort(arguments, sides);
        add_up(arguments);
    }

  private:
    /// The items' weights, of both directions.
    void weigh(PointChoices& by_p, PointChoices& by_r) const {
        Both<WeighArguments> both;
        std::int64_t items[2] = {};
        const auto add = [&](int i, const ChosenPoints& chosen, const core::Segments& side, std::size_t at,
                             PointChoices& choices) {
            if (chosen.index == nullptr || chosen.of_item == nullptr) return;
            both.of[i] = {side, chosen.of_item, chosen.mean, scratch_.data() + at};
            choices.of_item = both.of[i].to;
            items[i] = side.count;
        };
        add(0, gradients_.p, params_.p, layout_.weights_p, by_p);
        add(1, gradients_.r, params_.r, layout_.weights_r, by_r);
        both.first = items[0];
        if (items[0] + items[1] == 0) return;
        launch(kernels_.weigh, {items[0] + items[1], point_threads}, params_.place, &both);
    }

    /// The choices that points received, by row.
    void sort(PointGradientArguments& arguments, int sides) const {
        const std::int64_t count = layout_.choices;
        if (count == 0) return;
        std::byte* memory = scratch_.data() + layout_.sort;
        SortLists lists = lists_to_sort(memory, count);
        Both<NumberChoicesArguments> numbers;
        std::int64_t taken = 0;
        for (int i = 0; i < sides; ++i) {
            const PointGradientSide& side = arguments.sides.of[i];
            NumberChoicesArguments& of = numbers.of[i];
            of = {side.other, side.own, side.received.index, side.received.k};
            of.choices = side.received.index == nullptr ? 0 : side.other.rows * side.received.k;
            of.first_row = i == 0 ? 0 : arguments.sides.first;
            of.none = layout_.rows;
            of.keys = lists.keys + taken;
            of.numbers = lists.numbers + taken;
            taken += of.choices;
        }
        numbers.first = numbers.of[0].choices;
        launch(point_item_kernels.number_choices, {point_blocks(count), point_threads}, params_.place, &numbers);
        lists = sort_by_key(memory, count, layout_.rows, params_.place);
        const IndexKeys keys{lists.keys, lists.numbers, 1, count, layout_.rows};
        auto* starts = part_at<std::int64_t>(scratch_.data(), layout_.starts);
        const WriteGridArguments grid{keys, starts, nullptr};
        launch(index_kernels.write_starts, {(keys.starts() + index_threads - 1) / index_threads, index_threads},
               params_.place, &grid);
        arguments.starts = starts;
        arguments.choices = lists.numbers;
    }

    void add_up(PointGradientArguments& arguments) const {
        const int pack = static_cast<int>(16 / point_value_bytes(params_));
        const int kind = params_.dim == 3 ? 1 : (params_.dim % pack == 0 ? 2 : 0);
        const int widths[] = {1, 3, pack};
        arguments.sums =
            plan_sums(layout_.shared, scratch_.data(), layout_.rows, params_.dim, widths[kind], params_.place);
        run_sums(kernels_.gradient[kind], arguments.sums, layout_.choices, &arguments, params_.place);
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
