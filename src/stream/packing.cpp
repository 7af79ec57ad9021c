#include "stream/packing.hpp"

#include <algorithm>
#include <cstring>

#include "core/parallel.hpp"
#include "core/sides.hpp"

namespace rowmax::stream {

namespace {

// What one thread copies at a time: small enough to share out evenly, large enough that taking it costs nothing.
constexpr std::size_t piece_bytes = std::size_t{256} << 10;

}  // namespace

Packing::Packing(const TokenSet& items, Hidden hidden) {
    const core::Segments side = core::make_segments(copies_, items, core::document_names, false);
    row_bytes_ = static_cast<std::size_t>(items.tokens.shape[items.tokens.ndim - 1]) * size_of(items.tokens.dtype);
    row_stride_ = side.row_stride;
    starts_.reserve(static_cast<std::size_t>(side.count) + 1);
    const bool masked = side.mask.data != nullptr;
    for (std::int64_t i = 0; i < side.count; ++i) {
        const core::Segment item = side.at(i);
        if (!masked || hidden == Hidden::kept) add(item.data, item.length);
        for (std::int64_t t = 0; masked && t < item.length; ++t) {
            const bool keeps = side.keeps(item, t);
            if (hidden == Hidden::kept) mask_.push_back(keeps ? 1 : 0);
            if (hidden == Hidden::left_out && keeps) add(item.data + t * row_stride_, 1);
        }
        longest_ = std::max(longest_, written_ - starts_.back());
        starts_.push_back(written_);
    }
}

void Packing::add(const std::byte* from, std::int64_t rows) {
    if (rows == 0) return;
    const bool goes_on = !runs_.empty() && from == runs_.back().from + (written_ - runs_.back().at) * row_stride_;
    if (!goes_on) runs_.push_back({from, written_});
    written_ += rows;
}

void Packing::write_piece(std::int64_t first, std::int64_t last, std::byte* to) const {
    const auto after = [](std::int64_t row, const Run& run) { return row < run.at; };
    auto run = std::upper_bound(runs_.begin(), runs_.end(), first, after) - 1;
    const bool dense = row_stride_ == static_cast<std::int64_t>(row_bytes_);
    while (first < last) {
        const std::int64_t end = run + 1 == runs_.end() ? last : std::min(last, (run + 1)->at);
        const std::byte* from = run->from + (first - run->at) * row_stride_;
        const std::int64_t step = dense ? end - first : 1;
        for (; first < end; first += step, from += step * row_stride_) {
            const std::size_t bytes = static_cast<std::size_t>(step) * row_bytes_;
            std::memcpy(to, from, bytes);
            to += bytes;
        }
        ++run;
    }
}

void Packing::write(std::int64_t first, std::int64_t last, std::byte* to, int threads) const {
    const auto rows = static_cast<std::int64_t>(std::max<std::size_t>(piece_bytes / row_bytes_, 1));
    core::parallel_for(threads, (last - first + rows - 1) / rows, [&](std::int64_t piece) {
        const std::int64_t begin = first + piece * rows;
        write_piece(begin, std::min(begin + rows, last), to + static_cast<std::size_t>(begin - first) * row_bytes_);
    });
}

}  // namespace rowmax::stream
