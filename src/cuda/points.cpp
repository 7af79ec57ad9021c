#include "cuda/points.hpp"

#include <fmt/format.h>

#include "cuda/count_kept.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/load_selection.hpp"
#include "cuda/ordered_sums.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

const PointKernels& point_kernels_of(const core::PointParams& params) {
    return params.dtype == DType::f64 ? point_kernels_f64 : point_kernels_f32;
}

std::size_t point_value_bytes(const core::PointParams& params) {
    return size_of(params.result_dtype());
}

std::int64_t point_blocks(std::int64_t threads) {
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    const std::int64_t blocks = (threads + point_threads - 1) / point_threads;
    if (blocks <= most) return blocks;
    throw Error(ErrorCode::not_implemented, fmt::format("points on {} thread blocks, more than 2^31", blocks));
}

std::int64_t held_pitch(const core::PointParams& params) {
    return params.dim == 3 ? 4 : params.dim;
}

PointSideLayout::PointSideLayout(const core::PointParams& params, const core::Segments& side, bool kept_only,
                                 std::int64_t pitch, ScratchLayout& scratch)
    : params_(&params), side_(&side), kept_only_(kept_only), pitch_(pitch) {
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    if (side.total_rows >= most) {
        throw Error(ErrorCode::not_implemented,
                    fmt::format("{} points on a CUDA device: fewer than 2^31", side.total_rows));
    }
    if (side.kind == core::SegmentKind::offsets) starts_ = scratch.take_array<std::int64_t>(side.count + 1);
    if (masked()) {
        ranks_ = scratch.take_array<std::int32_t>(side.total_rows + 1);
        scan_ = scratch.take(count_kept_bytes(side.total_rows + 1));
        positions_ = scratch.take_array<std::int32_t>(side.total_rows);
    }
    if (!in_place())
        rows_ = scratch.take(static_cast<std::size_t>(side.total_rows * pitch) * point_value_bytes(params));
}

bool PointSideLayout::in_place() const {
    const auto size = static_cast<std::int64_t>(point_value_bytes(*params_));
    if (size_of(params_->dtype) != point_value_bytes(*params_) || masked() || pitch_ != params_->dim) return false;
    const std::int64_t row = params_->dim * size;
    const bool aligned = reinterpret_cast<std::uintptr_t>(side_->data) % 16 == 0;
    const bool rows = side_->row_stride == row || side_->total_rows <= 1;
    if (side_->kind != core::SegmentKind::strided || side_->count <= 1) return aligned && rows;
    const std::int64_t item = side_->length * row;
    const bool inner = side_->inner == 1 || side_->stride_inner == item;
    return aligned && rows && inner && (side_->count == side_->inner || side_->stride_outer == item * side_->inner);
}

void PointSideLayout::gather(const PointSide& made, std::int32_t* positions, void* to) const {
    GatherArguments arguments;
    arguments.side = *side_;
    arguments.dtype = params_->dtype;
    arguments.items = made.items;
    arguments.dim = params_->dim;
    arguments.pitch = made.pitch;
    while (arguments.lane_bits < 5 && (std::int64_t{4} << arguments.lane_bits) < made.pitch) ++arguments.lane_bits;
    arguments.ranks = made.ranks;
    arguments.positions = positions;
    arguments.to = to;
    launch(point_kernels_of(*params_).gather, {point_blocks(side_->total_rows << arguments.lane_bits), point_threads},
           params_->place, &arguments);
}

PointSide PointSideLayout::make(std::byte* memory) const {
    PointSide made;
    made.items = {side_->count, side_->total_rows, side_->length, nullptr};
    made.pitch = pitch_;
    made.data = side_->data;
    if (side_->kind == core::SegmentKind::offsets) {
        const StraightenArguments arguments{*side_, part_at<std::int64_t>(memory, starts_)};
        launch(point_item_kernels.straighten, {1, 1024}, params_->place, &arguments);
        made.items.starts = arguments.to;
    }
    if (side_->total_rows == 0) return made;
    auto* positions = part_at<std::int32_t>(memory, positions_);
    if (masked()) {
        const MarkArguments arguments{*side_, part_at<std::int32_t>(memory, ranks_)};
        launch(point_item_kernels.mark, {point_blocks(side_->total_rows + 1), point_threads}, params_->place,
               &arguments);
        count_kept(memory + scan_, arguments.kept, side_->total_rows + 1, params_->place);
        made.ranks = arguments.kept;
        made.positions = positions;
    }
    if (in_place()) return made;
    gather(made, positions, memory + rows_);
    made.data = memory + rows_;
    return made;
}

void load_point_kernels() {
    for (const void* kernel :
         {point_item_kernels.straighten, point_item_kernels.mark, point_item_kernels.number_choices}) {
        load_kernel(kernel);
    }
    for (const PointKernels* kernels : {&point_kernels_f32, &point_kernels_f64}) {
        for (const void* kernel : {kernels->gather, kernels->clear_lists, kernels->list[0], kernels->list[1],
                                   kernels->write_nearest, kernels->chamfer, kernels->weigh}) {
            load_kernel(kernel);
        }
        for (const auto& of_metric : kernels->pairs) {
            for (const void* kernel : of_metric) {
                if (kernel != nullptr) load_kernel(kernel, pair_shared_bytes);
            }
        }
        for (const auto& of_metric : kernels->nearest) {
            for (const void* kernel : of_metric) load_kernel(kernel);
        }
        for (const OrderedSumKernels& sums : kernels->gradient) load_sums(sums);
    }
}

}  // namespace rowmax::cuda
