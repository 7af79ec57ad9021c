#include "core/views.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/device_runtime.hpp"
#include "rowmax/error.hpp"

namespace rowmax::core {

namespace {

[[noreturn]] void refuse_view(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

bool aligned(const TensorView& view) {
    return reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) == 0;
}

void check_memory(const TensorView& view, std::string_view name) {
    if (view.data != nullptr || view.numel() == 0) return;
    refuse_view(ErrorCode::invalid_value, fmt::format("{} {} has no data (null pointer)", name, view.shape_text()));
}

// Every byte offset inside the view must be a number that a pointer can move by.
void check_extent(const TensorView& view, std::string_view name) {
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    std::int64_t elements = 0;
    bool fits = view.numel() <= std::numeric_limits<std::int64_t>::max() / size;
    for (int i = 0; i < view.ndim; ++i) {
        std::int64_t step = 0;
        fits = fits && !__builtin_mul_overflow(view.shape[i] - 1, view.stride[i], &step) &&
               step != std::numeric_limits<std::int64_t>::min() &&
               !__builtin_add_overflow(elements, std::abs(step), &elements);
    }
    if (fits && elements < std::numeric_limits<std::int64_t>::max() / size) return;
    refuse_view(ErrorCode::invalid_value,
                fmt::format("{} {}: its elements and strides do not fit 64 bits (strides [{}])", name,
                            view.shape_text(), fmt::join(view.stride.begin(), view.stride.begin() + view.ndim, ", ")));
}

// Copies the elements of `view` from dimension `dimension` on, in order.
void copy_elements(const TensorView& view, int dimension, const std::byte* from, std::byte*& to) {
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    for (std::int64_t i = 0; i < view.shape[dimension]; ++i) {
        const std::byte* item = from + i * view.stride[dimension] * size;
        if (dimension + 1 < view.ndim) {
            copy_elements(view, dimension + 1, item, to);
        } else {
            std::memcpy(to, item, static_cast<std::size_t>(size));
            to += size;
        }
    }
}

TensorView copy_of(Copies& copies, const TensorView& view) {
    if (copies.on_device) {
        refuse_view(
            ErrorCode::not_implemented,
            fmt::format("a view {} on a CUDA device whose last dimension is not contiguous, or whose base is not "
                        "aligned to its type: copy it first",
                        view.shape_text()));
    }
    copies.held.emplace_back(new std::byte[static_cast<std::size_t>(view.numel()) * size_of(view.dtype)]);
    std::byte* to = copies.held.back().get();
    if (view.numel() > 0) copy_elements(view, 0, static_cast<const std::byte*>(view.data), to);
    return {copies.held.back().get(), view.dtype, std::span(view.shape.data(), static_cast<std::size_t>(view.ndim))};
}

TensorView without_idle_strides(TensorView view) {
    const bool empty = view.numel() == 0;
    for (int i = 0; i < view.ndim; ++i) {
        if (empty || view.shape[i] == 1) view.stride[i] = 0;
    }
    return view;
}

}  // namespace

void check_input(const TensorView& view, std::string_view name) {
    if (!view.given()) refuse_view(ErrorCode::invalid_value, fmt::format("{} is missing", name));
    if (view.ndim > TensorView::max_ndim) {
        refuse_view(ErrorCode::invalid_value,
                    fmt::format("{}: a view has at most {} dimensions, got {}", name, TensorView::max_ndim, view.ndim));
    }
    if (std::any_of(view.shape.begin(), view.shape.begin() + view.ndim, [](std::int64_t size) { return size < 0; })) {
        refuse_view(ErrorCode::invalid_value, fmt::format("{} {}: a negative size", name, view.shape_text()));
    }
    check_memory(view, name);
    if (view.numel() > 0) check_extent(view, name);
}

void* checked_output(const TensorView& view, DType dtype, std::span<const std::int64_t> shape, std::string_view name) {
    if (!view.given()) refuse_view(ErrorCode::invalid_value, fmt::format("{} is missing", name));
    if (view.dtype != dtype) {
        refuse_view(ErrorCode::invalid_type,
                    fmt::format("{} must be {}, got {}", name, name_of(dtype), name_of(view.dtype)));
    }
    if (view.ndim != static_cast<int>(shape.size()) || !std::equal(shape.begin(), shape.end(), view.shape.begin())) {
        refuse_view(ErrorCode::invalid_value,
                    fmt::format("{} must have shape [{}], got {}", name, fmt::join(shape, ", "), view.shape_text()));
    }
    if (!view.contiguous() || !aligned(view)) {
        refuse_view(ErrorCode::invalid_value,
                    fmt::format("{} {} must be contiguous and aligned to its type", name, view.shape_text()));
    }
    check_memory(view, name);
    return view.data;
}

TensorView aligned_view(Copies& copies, const TensorView& view) {
    return without_idle_strides(aligned(view) ? view : copy_of(copies, view));
}

TensorView readable(Copies& copies, const TensorView& view) {
    const int last = view.ndim - 1;
    if (view.stride[last] == 1 || view.shape[last] <= 1 || view.numel() == 0) return aligned_view(copies, view);
    return without_idle_strides(copy_of(copies, view));
}

TensorView contiguous_copy(Copies& copies, const TensorView& view) {
    return {copy_of(copies, view).data, view.dtype, {view.numel()}};
}

TensorView rows_of(TensorView view, std::int64_t first, std::int64_t last) {
    if (!view.given()) return view;
    const std::int64_t bytes = view.stride[0] * static_cast<std::int64_t>(size_of(view.dtype));
    view.data = static_cast<std::byte*>(view.data) + first * bytes;
    view.shape[0] = last - first;
    return view;
}

IntList int_list(Copies& copies, const TensorView& view, std::string_view name) {
    check_input(view, name);
    if (view.dtype != DType::i32 && view.dtype != DType::i64) {
        refuse_view(ErrorCode::invalid_type,
                    fmt::format("{} must be int32 or int64, got {}", name, name_of(view.dtype)));
    }
    if (view.ndim != 1)
        refuse_view(ErrorCode::invalid_value,
                    fmt::format("{} must have one dimension, got {}", name, view.shape_text()));
    return {readable(copies, view).data, view.shape[0], view.dtype == DType::i64};
}

IntList on_host(Copies& copies, const IntList& list) {
    if (!copies.on_device || list.count == 0) return list;
    const DeviceRuntime* device = device_runtime();
    if (device == nullptr) refuse_view(ErrorCode::internal, "a build without CUDA was given a CUDA problem");
    if (device->captured(copies.place)) {
        refuse_view(ErrorCode::device,
                    "validate: contents are read on the host, which cannot wait for a stream that is being captured: "
                    "pass validate=False");
    }
    const std::size_t bytes = static_cast<std::size_t>(list.count) * (list.wide ? 8 : 4);
    copies.held.emplace_back(new std::byte[bytes]);
    device->copy(copies.place, copies.held.back().get(), list.data, bytes);
    device->drain(copies.place);
    return {copies.held.back().get(), list.count, list.wide};
}

TokenSteps token_steps(const TensorView& view, int items) {
    const auto step = [&](int i) { return view.stride[static_cast<std::size_t>(i)]; };
    if (view.ndim == 0) return {};
    return {items > 0 ? step(0) : 0, items > 1 ? step(1) : 0, view.ndim > items ? step(items) : 0};
}

std::int64_t checked_product(std::int64_t a, std::int64_t b, std::string_view what) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) {
        refuse_view(ErrorCode::invalid_value, fmt::format("{}: {} x {} does not fit 64 bits", what, a, b));
    }
    return product;
}

}  // namespace rowmax::core
