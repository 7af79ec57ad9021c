#include "core/plaid_views.hpp"

#include <fmt/format.h>

#include <span>

#include "core/overlap.hpp"
#include "core/problem.hpp"
#include "rowmax/error.hpp"
#include "rowmax/plaid.hpp"

namespace rowmax {

namespace core {

Copies copies_for(const Options& options) {
    Copies copies;
    copies.on_device = options.device.kind == Device::Kind::cuda;
    copies.place = {copies.on_device, options.device.ordinal, options.device.stream, nullptr};
    return copies;
}

void check_centroid_scores(const TensorView& scores) {
    check_input(scores, "centroid_scores");
    if (scores.dtype != DType::f32 && scores.dtype != DType::f16 && scores.dtype != DType::bf16) {
        throw Error(ErrorCode::invalid_type,
                    fmt::format("centroid_scores must be float32, float16 or bfloat16, got {}", name_of(scores.dtype)));
    }
    if (scores.ndim == 2) return;
    throw Error(ErrorCode::invalid_value, fmt::format("centroid_scores must be [C, Lq], got {}", scores.shape_text()));
}

CentroidScoresView centroid_scores_view(Copies& copies, const TensorView& scores) {
    const TensorView view = aligned_view(copies, scores);
    return {view.data, view.dtype, view.shape[0], view.shape[1], view.stride[0], view.stride[1]};
}

IntList flat_list(Copies& copies, const TensorView& view, std::string_view name) {
    check_input(view, name);
    const TensorView flat =
        view.contiguous() ? TensorView(view.data, view.dtype, {view.numel()}) : contiguous_copy(copies, view);
    return int_list(copies, flat, name);
}

const DevicePlaid& required_device_plaid() {
    const DevicePlaid* device = device_plaid();
    if (device != nullptr) return *device;
    throw Error(ErrorCode::not_implemented, "PLAID's steps on a CUDA device: this build has no CUDA");
}

}  // namespace core

void plaid_candidates(const TensorView& cells, const InvertedFile& lists, const TensorView& found,
                      const TensorView& count, const Options& options) {
    core::Copies copies = core::copies_for(options);
    if (!copies.on_device) {
        throw Error(ErrorCode::invalid_value, "plaid_candidates: results of unknown size are for CUDA devices");
    }
    core::check_input(found, "found");
    const std::int64_t documents = found.numel();
    const std::int64_t one = 1;
    auto* to = static_cast<std::int64_t*>(core::checked_output(found, DType::i64, std::span(&documents, 1), "found"));
    auto* counted = static_cast<std::int64_t*>(core::checked_output(count, DType::i64, std::span(&one, 1), "count"));
    const core::NamedView written[] = {{"found", found}, {"count", count}};
    const core::NamedView read[] = {{"cells", cells}, {"ivf", lists.documents}, {"ivf_lengths", lists.lengths}};
    core::check_disjoint(written, read);
    const core::IntList wanted = core::flat_list(copies, cells, "cells");
    const core::IntList all = core::int_list(copies, lists.documents, "ivf");
    const core::IntList lengths = core::int_list(copies, lists.lengths, "ivf_lengths");
    if (core::validates(options)) {
        const auto here = [&](const core::IntList& list) {
            const core::IntList on_host = core::on_host(copies, list);
            return TensorView(on_host.data, on_host.wide ? DType::i64 : DType::i32, {on_host.count});
        };
        plaid_candidates(here(wanted), {here(all), here(lengths)}, documents, true);
    }
    const auto numbers = [](const core::IntList& list) { return core::Numbers{list.data, list.wide, list.count}; };
    core::required_device_plaid().candidates(copies.place, numbers(wanted), numbers(all), numbers(lengths), documents,
                                             to, counted);
}

}  // namespace rowmax
