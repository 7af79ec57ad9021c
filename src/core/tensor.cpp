#include "rowmax/tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "rowmax/error.hpp"

namespace rowmax {

namespace {

struct DTypeRow {
    DType dtype;
    std::string_view name;
    std::size_t size;
};

constexpr DTypeRow dtype_rows[] = {
    {DType::f16, "float16", 2},
    {DType::bf16, "bfloat16", 2},
    {DType::f32, "float32", 4},
    {DType::f64, "float64", 8},
    {DType::i8, "int8", 1},
    {DType::u8, "uint8", 1},
    {DType::i16, "int16", 2},
    {DType::i32, "int32", 4},
    {DType::i64, "int64", 8},
    {DType::boolean, "bool", 1},
    {DType::f8e4m3, "float8_e4m3fn", 1},
};

}  // namespace

std::size_t size_of(DType dtype) noexcept {
    return dtype_rows[static_cast<int>(dtype)].size;
}

std::string_view name_of(DType dtype) noexcept {
    return dtype_rows[static_cast<int>(dtype)].name;
}

DType dtype_from_name(std::string_view name) {
    for (const DTypeRow& row : dtype_rows) {
        if (row.name == name) return row.dtype;
    }
    throw Error(ErrorCode::invalid_type, fmt::format("dtype: '{}' is not a type rowmax knows", name));
}

TensorView::TensorView(const void* data_, DType dtype_, std::span<const std::int64_t> shape_,
                       std::span<const std::int64_t> stride_)
    : data(const_cast<void*>(data_)), dtype(dtype_), ndim(static_cast<int>(shape_.size())) {
    if (shape_.size() > max_ndim || stride_.size() != shape_.size()) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("a view has 0 to {} dimensions and one stride for each; got shape [{}] and {} strides",
                                max_ndim, fmt::join(shape_, ", "), stride_.size()));
    }
    std::copy(shape_.begin(), shape_.end(), shape.begin());
    std::copy(stride_.begin(), stride_.end(), stride.begin());
}

namespace {

std::array<std::int64_t, TensorView::max_ndim> row_major(std::span<const std::int64_t> shape) {
    std::array<std::int64_t, TensorView::max_ndim> stride{};
    std::uint64_t step = 1;  // unsigned: an absurd shape wraps here, and is refused where the view is used
    for (std::size_t i = std::min<std::size_t>(shape.size(), TensorView::max_ndim); i-- > 0;) {
        stride[i] = static_cast<std::int64_t>(step);
        step *= static_cast<std::uint64_t>(shape[i]);
    }
    return stride;
}

}  // namespace

TensorView::TensorView(const void* data_, DType dtype_, std::span<const std::int64_t> shape_)
    : TensorView(
          data_, dtype_, shape_,
          std::span<const std::int64_t>(row_major(shape_).data(), std::min<std::size_t>(shape_.size(), max_ndim))) {}

TensorView::TensorView(const void* data_, DType dtype_, std::initializer_list<std::int64_t> shape_)
    : TensorView(data_, dtype_, std::span<const std::int64_t>(shape_.begin(), shape_.size())) {}

std::int64_t TensorView::numel() const noexcept {
    const auto sizes = std::span(shape).first(static_cast<std::size_t>(std::clamp(ndim, 0, max_ndim)));
    if (!given() || std::ranges::any_of(sizes, [](std::int64_t size) { return size <= 0; })) return 0;
    std::int64_t n = 1;
    for (const std::int64_t size : sizes) {
        if (__builtin_mul_overflow(n, size, &n)) return std::numeric_limits<std::int64_t>::max();
    }
    return n;
}

bool TensorView::contiguous() const noexcept {
    if (numel() == 0) return true;
    std::int64_t step = 1;
    for (int i = ndim; i-- > 0;) {
        if (shape[i] != 1 && stride[i] != step) return false;
        if (__builtin_mul_overflow(step, shape[i], &step)) return false;
    }
    return true;
}

std::string TensorView::shape_text() const {
    if (!given()) return "none";
    return fmt::format("[{}]", fmt::join(shape.begin(), shape.begin() + ndim, ", "));
}

}  // namespace rowmax
