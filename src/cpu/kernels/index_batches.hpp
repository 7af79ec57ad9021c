// An index [..., S] as batches of S numbers, whatever its strides.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>

#include "core/params.hpp"
#include "core/views.hpp"
#include "rowmax/error.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::cpu {

/// Where the batches of an array start: up to three leading dimensions, counted as one.
class BatchSteps {
  public:
    BatchSteps(const TensorView& view, int dimensions) {
        const auto count = static_cast<std::size_t>(dimensions);
        const std::size_t skipped = shape_.size() - count;
        for (std::size_t i = 0; i < count; ++i) {
            shape_.at(skipped + i) = view.shape.at(i);
            strides_.at(skipped + i) = view.stride.at(i);
        }
    }
    [[nodiscard]] std::int64_t count() const { return shape_[0] * shape_[1] * shape_[2]; }
    /// In elements.
    [[nodiscard]] std::int64_t first(std::int64_t batch) const {
        return batch / (shape_[1] * shape_[2]) * strides_[0] + batch / shape_[2] % shape_[1] * strides_[1] +
               batch % shape_[2] * strides_[2];
    }

  private:
    std::array<std::int64_t, TensorView::max_ndim - 1> shape_{1, 1, 1};
    std::array<std::int64_t, TensorView::max_ndim - 1> strides_{};
};

class IndexBatches {
  public:
    explicit IndexBatches(const TensorView& index)
        : data_(index.data),
          wide_(index.dtype == DType::i64),
          steps_(index, index.ndim - 1),
          sources_(index.shape[static_cast<std::size_t>(index.ndim - 1)]),
          stride_(index.stride[static_cast<std::size_t>(index.ndim - 1)]) {}

    [[nodiscard]] std::int64_t count() const { return steps_.count(); }
    [[nodiscard]] std::int64_t sources() const { return sources_; }
    [[nodiscard]] std::int64_t first(std::int64_t batch) const { return steps_.first(batch); }
    [[nodiscard]] std::int64_t at(std::int64_t first, std::int64_t source) const {
        return core::detail::read_int(data_, wide_, first + source * stride_);
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

/// That it is an index, and `n` a number of destinations.
inline void check_index(const TensorView& index, std::int64_t n) {
    core::check_input(index, "index");
    if (index.dtype != DType::i32 && index.dtype != DType::i64) {
        throw Error(ErrorCode::invalid_type, fmt::format("index must be int32 or int64, got {}", name_of(index.dtype)));
    }
    if (index.ndim < 1) {
        throw Error(ErrorCode::invalid_value, fmt::format("index must be [..., S], got {}", index.shape_text()));
    }
    if (n < 0 || n == std::numeric_limits<std::int64_t>::max()) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("num_destinations must not be negative or the largest int64, got {}", n));
    }
}

/// That every number of every batch is -1 or a destination.
inline void check_destinations(const IndexBatches& batches, std::int64_t n) {
    for (std::int64_t b = 0; b < batches.count(); ++b) {
        const std::int64_t first = batches.first(b);
        for (std::int64_t s = 0; s < batches.sources(); ++s) {
            const std::int64_t value = batches.at(first, s);
            if (value >= -1 && value < n) continue;
            throw Error(
                ErrorCode::invalid_value,
                fmt::format("index holds {} at source {} of batch {}, but num_destinations is {}", value, s, b, n));
        }
    }
}

}  // namespace rowmax::cpu
