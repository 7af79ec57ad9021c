// The public operators on an index: checks, and the backend whose memory it lies in.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "core/float_mode.hpp"
#include "core/index_backend.hpp"
#include "core/index_checks.hpp"
#include "core/overlap.hpp"
#include "core/scratch.hpp"
#include "core/views.hpp"
#include "rowmax/scatter.hpp"

namespace rowmax {

namespace {

using core::IndexCall;

[[noreturn]] void refuse_index(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

const core::IndexBackend& index_backend_of(const core::Place& place) {
    if (!place.cuda) return core::cpu_index();
    const core::IndexBackend* backend = core::cuda_index();
    if (backend == nullptr) {
        refuse_index(ErrorCode::not_implemented, "device: this build of rowmax has no CUDA kernels");
    }
    return *backend;
}

core::Copies copies_for(const Device& device) {
    core::Copies copies;
    copies.place = core::place_of(device);
    copies.on_device = copies.place.cuda;
    return copies;
}

/// The shape of the index with another size at its end.
std::array<std::int64_t, TensorView::max_ndim> shape_with(const TensorView& index, std::int64_t last) {
    std::array<std::int64_t, TensorView::max_ndim> shape = index.shape;
    shape.at(static_cast<std::size_t>(index.ndim) - 1) = last;
    return shape;
}

std::int64_t sources_of(const TensorView& index) {
    return index.shape.at(static_cast<std::size_t>(index.ndim) - 1);
}

std::int64_t* grid_output(const TensorView& view, const TensorView& index, std::int64_t last, std::string_view name) {
    const auto shape = shape_with(index, last);
    const auto rank = static_cast<std::size_t>(index.ndim);
    return static_cast<std::int64_t*>(core::checked_output(view, DType::i64, std::span(shape).first(rank), name));
}

bool has_channels(const TensorView& index, const TensorView& values) {
    return values.ndim > index.ndim;
}

void check_values(const TensorView& index, const TensorView& values) {
    core::check_input(values, "values");
    switch (values.dtype) {
        case DType::f16:
        case DType::bf16:
        case DType::f32:
        case DType::f64: break;
        default:
            refuse_index(
                ErrorCode::invalid_type,
                fmt::format("values must be float16, bfloat16, float32 or float64, got {}", name_of(values.dtype)));
    }
    const bool rank_fits = values.ndim == index.ndim || values.ndim == index.ndim + 1;
    const auto rank = static_cast<std::size_t>(index.ndim);
    if (rank_fits && std::equal(index.shape.begin(), index.shape.begin() + rank, values.shape.begin())) return;
    refuse_index(ErrorCode::invalid_value,
                 fmt::format("values {} does not fit index {}: it must begin with the same shape", values.shape_text(),
                             index.shape_text()));
}

std::int64_t* grid_part(core::Copies& copies, const TensorView& part, const TensorView& index, std::int64_t last,
                        std::string_view name) {
    core::check_input(part, name);
    if (part.dtype != DType::i64) {
        refuse_index(ErrorCode::invalid_type, fmt::format("{} must be int64, got {}", name, name_of(part.dtype)));
    }
    TensorView wanted = index;
    wanted.shape = shape_with(index, last);
    const auto rank = static_cast<std::size_t>(index.ndim);
    if (part.ndim != index.ndim || !std::equal(part.shape.begin(), part.shape.begin() + rank, wanted.shape.begin())) {
        refuse_index(ErrorCode::invalid_value, fmt::format("{} must have shape {}, got {}: a grid of the same index",
                                                           name, wanted.shape_text(), part.shape_text()));
    }
    const bool plain = part.contiguous() && reinterpret_cast<std::uintptr_t>(part.data) % sizeof(std::int64_t) == 0;
    return static_cast<std::int64_t*>(plain ? part.data : core::contiguous_copy(copies, part).data);
}

/// values as the kernels read them: channels side by side.
TensorView rows_of(core::Copies& copies, const TensorView& index, const TensorView& values) {
    return has_channels(index, values) ? core::readable(copies, values) : core::aligned_view(copies, values);
}

std::byte* checked_out(const TensorView& out, const TensorView& values, int rank, std::int64_t n) {
    std::array<std::int64_t, TensorView::max_ndim> shape = values.shape;
    shape.at(static_cast<std::size_t>(rank - 1)) = n;
    const auto dimensions = static_cast<std::size_t>(values.ndim);
    return static_cast<std::byte*>(core::checked_output(out, values.dtype, std::span(shape).first(dimensions), "out"));
}

/// The call on its backend: the index is looked through first where that is asked for.
void run_on_index(IndexCall& call, bool validate, const Device& device,
                  void (*core::IndexBackend::*task)(const IndexCall&)) {
    const core::IndexBackend& backend = index_backend_of(call.place);
    core::place_workspace(call.place, device, backend.workspace, "an operator on an index", call);
    if (validate) backend.check(call);
    (backend.*task)(call);
}

}  // namespace

void inverse_grid(const TensorView& index, std::int64_t num_destinations, const TensorView& row_ptr,
                  const TensorView& source, bool validate, const Device& device) {
    core::check_index(index, num_destinations);
    core::Copies copies = copies_for(device);
    IndexCall call;
    call.index = core::aligned_view(copies, index);
    call.destinations = num_destinations;
    call.row_ptr = grid_output(row_ptr, index, num_destinations + 1, "row_ptr");
    call.source = grid_output(source, index, sources_of(index), "source");
    call.place = copies.place;
    const core::NamedView written[] = {{"row_ptr", row_ptr}, {"source", source}};
    const core::NamedView read[] = {{"index", index}};
    core::check_disjoint(written, read);
    run_on_index(call, validate, device, &core::IndexBackend::invert);
}

void scatter_sum(const TensorView& index, const TensorView& values, std::int64_t num_destinations,
                 const TensorView& out, const InverseGrid& grid, bool validate, int threads, const Device& device,
                 bool deterministic) {
    const core::StandardFloatMode mode;
    if (threads < 0) {
        refuse_index(ErrorCode::invalid_value, fmt::format("threads: must not be negative, got {}", threads));
    }
    core::check_index(index, num_destinations);
    check_values(index, values);
    core::Copies copies = copies_for(device);
    IndexCall call;
    call.threads = threads;
    call.deterministic = deterministic;
    call.place = copies.place;
    call.index = core::aligned_view(copies, index);
    call.values = rows_of(copies, index, values);
    call.destinations = num_destinations;
    if (has_channels(index, values)) call.channels = values.shape[static_cast<std::size_t>(values.ndim - 1)];
    call.out = checked_out(out, values, index.ndim, num_destinations);
    if (grid.row_ptr.given() || grid.source.given()) {
        call.row_ptr = grid_part(copies, grid.row_ptr, index, num_destinations + 1, "grid row_ptr");
        call.source = grid_part(copies, grid.source, index, sources_of(index), "grid source");
    }
    const core::NamedView written[] = {{"out", out}};
    const core::NamedView read[] = {
        {"index", index}, {"values", values}, {"grid row_ptr", grid.row_ptr}, {"grid source", grid.source}};
    core::check_disjoint(written, read);
    run_on_index(call, validate, device, &core::IndexBackend::sum);
}

}  // namespace rowmax
