#include "stream/packing.hpp"

#include <algorithm>
#include <cstring>

#include "core/parallel.hpp"
#include "core/sides.hpp"

namespace rowmax::stream {

namespace {

// What one thread copies at a time: small enough to share out evenly, large enough that taking it costs nothing.
constexpr std::int64_t piece_bytes = std::int64_t{256} << 10;

}  // namespace

Packing::Packing(const TokenSet& items, Hidden hidden) {
    const core::Segments side = core::make_segments(copies_, items, core::document_names, false);
    row_bytes_.token =
        items.tokens.shape[items.tokens.ndim - 1] * static_cast<std::int64_t>(size_of(items.tokens.dtype));
    row_stride_ = side.row_stride;
    find_beside(items);
    starts_.reserve(static_cast<std::size_t>(side.count) + 1);
    const bool masked = side.mask.data != nullptr;
    for (std::int64_t i = 0; i < side.count; ++i) {
        const core::Segment item = side.at(i);
        if (!masked || hidden == Hidden::kept) add(side, i, 0, item.length);
        for (std::int64_t t = 0; masked && t < item.length; ++t) {
            const bool keeps = side.keeps(item, t);
            if (hidden == Hidden::kept) mask_.push_back(keeps ? 1 : 0);
            if (hidden == Hidden::left_out && keeps) add(side, i, t, 1);
        }
        longest_ = std::max(longest_, written_ - starts_.back());
        starts_.push_back(written_);
    }
}

void Packing::find_beside(const TokenSet& items) {
    const TensorView& beside = items.scale.given() ? items.scale : items.codes;
    if (!beside.given()) return;
    beside_ = static_cast<const std::byte*>(beside.data);
    beside_steps_ = core::token_steps(beside, items.tokens.ndim - 2);
    row_bytes_.beside = static_cast<std::int64_t>(size_of(beside.dtype));
}

void Packing::add(const core::Segments& side, std::int64_t item, std::int64_t token, std::int64_t rows) {
    if (rows == 0) return;
    Run run{side.at(item).data + token * row_stride_, nullptr, written_};
    const std::int64_t step = beside_steps_.token * row_bytes_.beside;
    if (beside_ != nullptr) run.beside = beside_ + beside_steps_.first(side, item) * row_bytes_.beside + token * step;
    const std::int64_t before = runs_.empty() ? 0 : written_ - runs_.back().at;
    const bool goes_on = !runs_.empty() && run.from == runs_.back().from + before * row_stride_ &&
                         (beside_ == nullptr || run.beside == runs_.back().beside + before * step);
    if (!goes_on) runs_.push_back(run);
    written_ += rows;
}

void Packing::write_column(const Column& column, std::int64_t first, std::int64_t last, std::byte* to) const {
    const auto after = [](std::int64_t row, const Run& run) { return row < run.at; };
    auto run = std::upper_bound(runs_.begin(), runs_.end(), first, after) - 1;
    const bool dense = column.stride == column.bytes;
    while (first < last) {
        const std::int64_t end = run + 1 == runs_.end() ? last : std::min(last, (run + 1)->at);
        const std::byte* from = (*run).*column.start + (first - run->at) * column.stride;
        const std::int64_t step = dense ? end - first : 1;
        for (; first < end; first += step, from += step * column.stride) {
            std::memcpy(to, from, static_cast<std::size_t>(step * column.bytes));
            to += step * column.bytes;
        }
        ++run;
    }
}

void Packing::write(std::int64_t first, std::int64_t last, std::byte* to, int threads) const {
    const Column tokens{&Run::from, row_bytes_.token, row_stride_};
    const std::int64_t rows = std::max<std::int64_t>(piece_bytes / row_bytes_.token, 1);
    core::parallel_for(threads, (last - first + rows - 1) / rows, [&](std::int64_t piece) {
        const std::int64_t begin = first + piece * rows;
        write_column(tokens, begin, std::min(begin + rows, last), to + (begin - first) * row_bytes_.token);
    });
}

void Packing::write_beside(std::int64_t first, std::int64_t last, std::byte* to) const {
    if (beside_ == nullptr) return;
    write_column({&Run::beside, row_bytes_.beside, beside_steps_.token * row_bytes_.beside}, first, last, to);
}

}  // namespace rowmax::stream
