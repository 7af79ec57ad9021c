#include "cpu/kernels/query_block.hpp"

#include <algorithm>
#include <limits>

namespace rowmax::cpu {

template <class Value>
void QueryBlock<Value>::clear() {
    pieces_.clear();
    rows_.clear();
    positions_.clear();
    stored_scales_.clear();
}

template <class Value>
void QueryBlock<Value>::gather_queries(const core::Params& params, std::int64_t first, std::int64_t last) {
    clear();
    for (std::int64_t q = first; q < last; ++q) add(params, q, 0, params.q.at(q).length);
}

template <class Value>
void QueryBlock<Value>::gather_slice(const core::Params& params, std::int64_t query, std::int64_t begin,
                                     std::int64_t end) {
    clear();
    add(params, query, begin, end);
}

template <class Value>
void QueryBlock<Value>::add(const core::Params& params, std::int64_t query, std::int64_t begin, std::int64_t end) {
    const core::Segment segment = params.q.at(query);
    const core::Scales* scales = has_scales(params) ? &params.compressed->q : nullptr;
    const std::int64_t first_scale = scales == nullptr ? 0 : scales->steps.first(params.q, query);
    Piece piece{query, begin, end, rows(), 0, end == segment.length};
    for (std::int64_t s = begin; s < end; ++s) {
        if (!params.q.keeps(segment, s)) continue;
        rows_.push_back(segment.data + s * params.q.row_stride);
        positions_.push_back(s);
        if (scales != nullptr) stored_scales_.push_back(scales->data[first_scale + s * scales->steps.token]);
    }
    piece.kept = rows() - piece.first_lane;
    pieces_.push_back(piece);
}

template <class Value>
void QueryBlock<Value>::pack(const TileOps& ops, const core::Params& params, bool few) {
    const std::int64_t vector = fold_ops<Value>(ops, params).lanes;
    const std::int64_t height = panel_height(ops, params);
    split_ = split_queries(rows(), vector, few);
    panel_lanes_ = (2 * split_.wide + split_.narrow) * vector;
    scaled_ = params.normalize || has_scales(params);
    if (scaled_) scales_.reserve(lanes());
    std::copy(stored_scales_.begin(), stored_scales_.end(), scales_.data());
    Value* panel = panels_.reserve(lanes() * height);
    for (std::int64_t first = 0; first < panel_lanes_;) {
        const std::int64_t width = std::min(2 * vector, panel_lanes_ - first);
        pack_panel(ops, params, panel, first, width);
        panel += width * height;
        first += width;
    }
    for (std::int64_t first = panel_lanes_; first < lanes();) {
        const std::int64_t width = few_in_turn(lanes() - first);
        pack_panel(ops, params, panel, first, width);
        panel += width * height;
        first += width;
    }
}

namespace {

/// A query row as the kernels take it.
const std::byte* operand(const TileOps& ops, const core::Params& params, const std::byte* row, void* scratch) {
    const DType dtype = core::query_dtype(params);
    if (dtype == DType::i8) return query_words(ops.codes, row, scratch, params.dim);
    if (dtype == DType::u8) return query_bits(ops.bits, row, scratch, params.dim);
    return widened(ops, dtype, row, scratch, params.dim);
}

}  // namespace

template <class Value>
void QueryBlock<Value>::pack_panel(const TileOps& ops, const core::Params& params, Value* panel, std::int64_t first,
                                   std::int64_t lanes) {
    const std::int64_t height = panel_height(ops, params);
    Value* scratch = scratch_.reserve(height);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
        if (first + lane >= rows()) {
            for (std::int64_t k = 0; k < height; ++k) panel[k * lanes + lane] = 0;
            continue;
        }
        const std::byte* row = rows_[static_cast<std::size_t>(first + lane)];
        row = operand(ops, params, row, scratch);
        if (params.normalize) scales_[first + lane] = inverse_norm(ops, row, scratch, params.dim);
        // A token with an infinity has no direction: each of its similarities is NaN, as x / |x| gives.
        const bool nan = params.normalize && scales_[first + lane] != scales_[first + lane];
        for (std::int64_t k = 0; k < height; ++k) {
            const Value x = core::load<Value>(row + k * std::int64_t{sizeof(Value)});
            panel[k * lanes + lane] = nan ? std::numeric_limits<Value>::quiet_NaN() : x;
        }
    }
}

template class QueryBlock<float>;
template class QueryBlock<double>;

}  // namespace rowmax::cpu
