#include "core/overlap.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "core/sides.hpp"
#include "rowmax/compressed.hpp"
#include "rowmax/error.hpp"
#include "rowmax/projection.hpp"

namespace rowmax::core {

namespace {

/// First and one past the last byte; wrapping arithmetic, for views that were checked before.
struct Extent {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
};

Extent extent_of(const TensorView& view) {
    if (view.numel() == 0) return {};
    const auto size = static_cast<std::uintptr_t>(size_of(view.dtype));
    const auto first = reinterpret_cast<std::uintptr_t>(view.data);
    Extent extent{first, first + size};
    for (int i = 0; i < view.ndim; ++i) {
        const std::int64_t steps = (view.shape[i] - 1) * view.stride[i];
        (steps < 0 ? extent.begin : extent.end) += static_cast<std::uintptr_t>(steps) * size;
    }
    return extent;
}

void check_pair(const NamedView& output, const NamedView& other) {
    const Extent a = extent_of(output.view);
    const Extent b = extent_of(other.view);
    if (a.begin >= b.end || b.begin >= a.end) return;
    throw Error(ErrorCode::invalid_value, fmt::format("{} {} shares memory with {} {}", output.name,
                                                      output.view.shape_text(), other.name, other.view.shape_text()));
}

}  // namespace

void check_disjoint(std::span<const NamedView> outputs, std::span<const NamedView> inputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        for (const NamedView& input : inputs) check_pair(outputs[i], input);
        for (const NamedView& earlier : outputs.first(i)) check_pair(outputs[i], earlier);
    }
}

void check_disjoint(std::span<const NamedView> outputs, const ScoreRequest& request) {
    const NamedView inputs[] = {
        {named(request.q, query_names).tokens, request.q.tokens},
        {"q_mask", request.q.mask},
        {"cu_seqlens_q", request.q.cu_seqlens},
        {named(request.d, document_names).tokens, request.d.tokens},
        {"d_mask", request.d.mask},
        {"cu_seqlens_d", request.d.cu_seqlens},
        {"offsets", request.q.offsets},
        {"lengths", request.q.lengths},
        {"offsets", request.d.offsets},
        {"lengths", request.d.lengths},
        {"pair_q", request.pair_q},
        {"pair_d", request.pair_d},
        {"q_scale", request.q.scale},
        {"d_scale", request.d.scale},
        {"codes", request.d.codes},
    };
    check_disjoint(outputs, inputs);
    if (request.d.projection != nullptr) {
        const NamedView layer[] = {{"W", request.d.projection->weight}, {"b", request.d.projection->bias}};
        check_disjoint(outputs, layer);
    }
    if (request.d.residual == nullptr) return;
    const NamedView tables[] = {{"centroids", request.d.residual->centroids},
                                {"bucket_weights", request.d.residual->bucket_weights}};
    check_disjoint(outputs, tables);
}

}  // namespace rowmax::core
