// The public inverse grid: checks, then one counting sort for every batch.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string_view>

#include "core/overlap.hpp"
#include "core/params.hpp"
#include "core/views.hpp"
#include "cpu/kernels/counting_sort.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax {

namespace {

constexpr int batch_ndim = TensorView::max_ndim - 1;

void check_index(const TensorView& index, std::int64_t n) {
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

std::int64_t* checked_output(const TensorView& view, const TensorView& index, std::int64_t last,
                             std::string_view name) {
    std::array<std::int64_t, TensorView::max_ndim> shape = index.shape;
    const auto rank = static_cast<std::size_t>(index.ndim);
    shape[rank - 1] = last;
    return static_cast<std::int64_t*>(core::checked_output(view, DType::i64, std::span(shape).first(rank), name));
}

/// The index as batches of S numbers, whatever its strides.
class Batches {
  public:
    explicit Batches(const TensorView& index) : index_(index) {
        const int batch = index.ndim - 1;
        sources_ = index.shape[static_cast<std::size_t>(batch)];
        stride_ = index.stride[static_cast<std::size_t>(batch)];
        for (int i = 0; i < batch; ++i) {
            const auto at = static_cast<std::size_t>(batch_ndim - batch) + static_cast<std::size_t>(i);
            shape_[at] = index.shape[static_cast<std::size_t>(i)];
            strides_[at] = index.stride[static_cast<std::size_t>(i)];
        }
    }
    [[nodiscard]] std::int64_t count() const { return shape_[0] * shape_[1] * shape_[2]; }
    [[nodiscard]] std::int64_t sources() const { return sources_; }
    [[nodiscard]] std::int64_t first(std::int64_t batch) const {
        return batch / (shape_[1] * shape_[2]) * strides_[0] + batch / shape_[2] % shape_[1] * strides_[1] +
               batch % shape_[2] * strides_[2];
    }
    [[nodiscard]] std::int64_t at(std::int64_t first, std::int64_t source) const {
        return core::detail::read_int(index_.data, index_.dtype == DType::i64, first + source * stride_);
    }

  private:
    const TensorView& index_;
    std::array<std::int64_t, batch_ndim> shape_{1, 1, 1};
    std::array<std::int64_t, batch_ndim> strides_{};
    std::int64_t sources_ = 0;
    std::int64_t stride_ = 0;
};

void check_values(const Batches& batches, std::int64_t batch, std::int64_t n) {
    const std::int64_t first = batches.first(batch);
    for (std::int64_t s = 0; s < batches.sources(); ++s) {
        const std::int64_t value = batches.at(first, s);
        if (value >= -1 && value < n) continue;
        throw Error(
            ErrorCode::invalid_value,
            fmt::format("index holds {} at source {} of batch {}, but num_destinations is {}", value, s, batch, n));
    }
}

}  // namespace

void inverse_grid(const TensorView& index, std::int64_t num_destinations, const TensorView& row_ptr,
                  const TensorView& source, bool validate) {
    check_index(index, num_destinations);
    core::Copies copies;
    const TensorView view = core::aligned_view(copies, index);
    const Batches batches(view);
    std::int64_t* all_starts = checked_output(row_ptr, index, num_destinations + 1, "row_ptr");
    std::int64_t* all_sources = checked_output(source, index, batches.sources(), "source");
    const core::NamedView written[] = {{"row_ptr", row_ptr}, {"source", source}};
    const core::NamedView read[] = {{"index", index}};
    core::check_disjoint(written, read);
    if (validate) {
        for (std::int64_t b = 0; b < batches.count(); ++b) check_values(batches, b, num_destinations);
    }
    for (std::int64_t b = 0; b < batches.count(); ++b) {
        const std::int64_t first = batches.first(b);
        std::int64_t* starts = all_starts + b * (num_destinations + 1);
        std::int64_t* sources = all_sources + b * batches.sources();
        cpu::counting_sort(
            batches.sources(), num_destinations, [&](std::int64_t s) { return batches.at(first, s); }, starts, sources);
        std::fill(sources + starts[num_destinations], sources + batches.sources(), std::int64_t{-1});
    }
}

}  // namespace rowmax
