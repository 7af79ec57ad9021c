// The rows of a token tensor [..., L, d], one after the other, for operators that look at each on its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/half.hpp"
#include "core/views.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::core {

class TokenRows {
  public:
    /// `view` has 2 to 4 dimensions. Copies it where its last dimension is not contiguous.
    TokenRows(Copies& copies, const TensorView& view) : view_(readable(copies, view)), lead_(view.ndim - 1) {
        dim_ = view_.shape[static_cast<std::size_t>(lead_)];
        length_ = view_.shape[static_cast<std::size_t>(lead_ - 1)];
        items_ = 1;
        for (int i = 0; i + 1 < lead_; ++i) items_ *= view_.shape[static_cast<std::size_t>(i)];
    }
    /// Its last dimension is contiguous, or it was copied.
    [[nodiscard]] const TensorView& view() const { return view_; }
    [[nodiscard]] DType dtype() const { return view_.dtype; }
    [[nodiscard]] std::int64_t dim() const { return dim_; }
    [[nodiscard]] std::int64_t length() const { return length_; }  ///< L
    [[nodiscard]] std::int64_t items() const { return items_; }    ///< everything before L
    [[nodiscard]] std::int64_t count() const { return items_ * length_; }

    [[nodiscard]] const std::byte* at(std::int64_t row) const {
        std::int64_t element = 0;
        for (int i = lead_; i-- > 0;) {
            const std::int64_t size = view_.shape[static_cast<std::size_t>(i)];
            element += row % size * view_.stride[static_cast<std::size_t>(i)];
            row /= size;
        }
        return static_cast<const std::byte*>(view_.data) + element * static_cast<std::int64_t>(size_of(view_.dtype));
    }

  private:
    TensorView view_;
    int lead_;
    std::int64_t dim_ = 0;
    std::int64_t length_ = 0;
    std::int64_t items_ = 1;
};

/// A row of floating point numbers as Values, in `scratch` where they are stored otherwise.
template <class Value>
const Value* row_as(const std::byte* row, DType dtype, std::int64_t dim, Value* scratch) {
    switch (dtype) {
        case DType::f16:
            for (std::int64_t k = 0; k < dim; ++k) scratch[k] = half_to_float(load<std::uint16_t>(row + 2 * k));
            return scratch;
        case DType::bf16:
            for (std::int64_t k = 0; k < dim; ++k) scratch[k] = bfloat_to_float(load<std::uint16_t>(row + 2 * k));
            return scratch;
        default: return reinterpret_cast<const Value*>(row);
    }
}

}  // namespace rowmax::core
