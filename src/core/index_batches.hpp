// An index [..., S] as batches of S numbers, whatever its strides. Plain enough for code on a GPU.
#pragma once

#include <cstdint>
#include <iterator>

#include "core/params.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::core {

/// Where the batches of an array start: up to three leading dimensions, counted as one.
class BatchSteps {
  public:
    constexpr BatchSteps() = default;
    BatchSteps(const TensorView& view, int dimensions) {
        const auto count = static_cast<std::size_t>(dimensions);
        const std::size_t skipped = std::size(shape_) - count;
        for (std::size_t i = 0; i < count; ++i) {
            shape_[skipped + i] = view.shape.at(i);
            strides_[skipped + i] = view.stride.at(i);
        }
    }
    [[nodiscard]] constexpr std::int64_t count() const { return shape_[0] * shape_[1] * shape_[2]; }
    /// In elements.
    [[nodiscard]] constexpr std::int64_t first(std::int64_t batch) const {
        return batch / (shape_[1] * shape_[2]) * strides_[0] + batch / shape_[2] % shape_[1] * strides_[1] +
               batch % shape_[2] * strides_[2];
    }

  private:
    std::int64_t shape_[TensorView::max_ndim - 1] = {1, 1, 1};
    std::int64_t strides_[TensorView::max_ndim - 1] = {};
};

class IndexBatches {
  public:
    explicit IndexBatches(const TensorView& index)
        : data_(index.data),
          wide_(index.dtype == DType::i64),
          steps_(index, index.ndim - 1),
          sources_(index.shape[static_cast<std::size_t>(index.ndim - 1)]),
          stride_(index.stride[static_cast<std::size_t>(index.ndim - 1)]) {}

    [[nodiscard]] constexpr std::int64_t count() const { return steps_.count(); }
    [[nodiscard]] constexpr std::int64_t sources() const { return sources_; }
    [[nodiscard]] constexpr std::int64_t first(std::int64_t batch) const { return steps_.first(batch); }
    [[nodiscard]] constexpr std::int64_t at(std::int64_t first, std::int64_t source) const {
        return detail::read_int(data_, wide_, first + source * stride_);
    }

    /// Calls f with a function that gives the destination of a source of one batch: of the index's type where its
    /// numbers lie side by side.
    template <class F>
    void with_batch(std::int64_t batch, F f) const {
        const std::int64_t start = first(batch);
        if (stride_ == 1 && wide_) {
            const auto* numbers = static_cast<const std::int64_t*>(data_) + start;
            f([numbers](std::int64_t s) { return numbers[s]; });
        } else if (stride_ == 1) {
            const auto* numbers = static_cast<const std::int32_t*>(data_) + start;
            f([numbers](std::int64_t s) { return std::int64_t{numbers[s]}; });
        } else {
            f([this, start](std::int64_t s) { return at(start, s); });
        }
    }

  private:
    const void* data_;
    bool wide_;
    BatchSteps steps_;
    std::int64_t sources_;
    std::int64_t stride_;
};

}  // namespace rowmax::core
