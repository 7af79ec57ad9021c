// The public inverse grid: checks, then one counting sort for every batch.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "core/overlap.hpp"
#include "core/views.hpp"
#include "cpu/kernels/counting_sort.hpp"
#include "cpu/kernels/index_batches.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax {

namespace {

std::int64_t* checked_output(const TensorView& view, const TensorView& index, std::int64_t last,
                             std::string_view name) {
    std::array<std::int64_t, TensorView::max_ndim> shape = index.shape;
    const auto rank = static_cast<std::size_t>(index.ndim);
    shape[rank - 1] = last;
    return static_cast<std::int64_t*>(core::checked_output(view, DType::i64, std::span(shape).first(rank), name));
}

}  // namespace

void inverse_grid(const TensorView& index, std::int64_t num_destinations, const TensorView& row_ptr,
                  const TensorView& source, bool validate) {
    cpu::check_index(index, num_destinations);
    core::Copies copies;
    const TensorView view = core::aligned_view(copies, index);
    const cpu::IndexBatches batches(view);
    std::int64_t* all_starts = checked_output(row_ptr, index, num_destinations + 1, "row_ptr");
    std::int64_t* all_sources = checked_output(source, index, batches.sources(), "source");
    const core::NamedView written[] = {{"row_ptr", row_ptr}, {"source", source}};
    const core::NamedView read[] = {{"index", index}};
    core::check_disjoint(written, read);
    if (validate) cpu::check_destinations(batches, num_destinations);
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
