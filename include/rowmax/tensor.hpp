// TensorView: memory that somebody else owns, with a type, a shape and strides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "rowmax/export.hpp"

namespace rowmax {

/// Element types. Tokens are f16, bf16, f32 or f64; masks and offsets use the others.
enum class DType : std::uint8_t { f16, bf16, f32, f64, i8, u8, i16, i32, i64, boolean, f8e4m3 };

/// Bytes in one element.
ROWMAX_API std::size_t size_of(DType dtype) noexcept;
/// The name users know: "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "int8", "uint8", "bool", ...
ROWMAX_API std::string_view name_of(DType dtype) noexcept;
/// The inverse of name_of; throws invalid_type for a name that is none.
ROWMAX_API DType dtype_from_name(std::string_view name);

/// A strided view of host memory. Shapes and strides count elements, not bytes; a stride of 0 is a
/// broadcast. A default-constructed view means "not given".
struct ROWMAX_API TensorView {
    static constexpr int max_ndim = 4;

    void* data = nullptr;
    DType dtype = DType::f32;
    int ndim = -1;
    std::array<std::int64_t, max_ndim> shape{};
    std::array<std::int64_t, max_ndim> stride{};

    TensorView() = default;
    /// A row-major, contiguous view.
    TensorView(const void* data, DType dtype, std::initializer_list<std::int64_t> shape);
    TensorView(const void* data, DType dtype, std::span<const std::int64_t> shape);
    /// A view with explicit strides, in elements. Throws invalid_value beyond max_ndim dimensions.
    TensorView(const void* data, DType dtype, std::span<const std::int64_t> shape,
               std::span<const std::int64_t> stride);

    [[nodiscard]] bool given() const noexcept { return ndim >= 0; }
    /// Elements: 0 when not given, the largest int64 when there are more than that.
    [[nodiscard]] std::int64_t numel() const noexcept;
    [[nodiscard]] bool contiguous() const noexcept;
    /// "[2, 32, 128]", for messages.
    [[nodiscard]] std::string shape_text() const;
};

}  // namespace rowmax
