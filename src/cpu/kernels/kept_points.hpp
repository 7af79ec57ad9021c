// The points of one item that a mask keeps, as rows of numbers: where they lie, or widened and closed up in a copy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/points.hpp"
#include "core/token_rows.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/point_ops.hpp"

namespace rowmax::cpu {

template <class Value>
class KeptPoints {
  public:
    KeptPoints(const core::PointParams& params, const core::Segments& side, std::int64_t item)
        : segment_(side.at(item)) {
        if (side.mask.data != nullptr) find_kept(side);
        rows_.count = masked_ ? static_cast<std::int64_t>(positions_.size()) : segment_.length;
        const bool in_place = !masked_ && size_of(params.dtype) == sizeof(Value);
        if (in_place) {
            rows_.data = reinterpret_cast<const Value*>(segment_.data);
            rows_.stride = side.row_stride / static_cast<std::int64_t>(sizeof(Value));
        } else {
            copy(params, side);
        }
        finite_ = all_finite(params.dim);
    }

    [[nodiscard]] const PointRows<Value>& rows() const { return rows_; }
    [[nodiscard]] std::int64_t count() const { return rows_.count; }
    [[nodiscard]] bool finite() const { return finite_; }
    [[nodiscard]] const core::Segment& segment() const { return segment_; }
    /// Where in the item kept point `i` is.
    [[nodiscard]] std::int64_t position(std::int64_t i) const {
        return masked_ ? positions_[static_cast<std::size_t>(i)] : i;
    }

  private:
    void find_kept(const core::Segments& side) {
        for (std::int64_t t = 0; t < segment_.length; ++t) {
            if (side.keeps(segment_, t)) positions_.push_back(static_cast<std::int32_t>(t));
        }
        masked_ = static_cast<std::int64_t>(positions_.size()) != segment_.length;
    }

    void copy(const core::PointParams& params, const core::Segments& side) {
        Value* to = copy_.reserve(std::max<std::int64_t>(rows_.count * params.dim, 1));
        rows_.data = to;
        rows_.stride = params.dim;
        for (std::int64_t i = 0; i < rows_.count; ++i, to += params.dim) {
            const std::byte* from = segment_.data + position(i) * side.row_stride;
            const Value* row = core::row_as<Value>(from, params.dtype, params.dim, to);
            if (row != to) std::copy_n(row, params.dim, to);
        }
    }

    [[nodiscard]] bool all_finite(std::int64_t dim) const {
        constexpr Value largest = std::numeric_limits<Value>::max();
        bool finite = true;
        for (std::int64_t i = 0; i < rows_.count && finite; ++i) {
            const Value* row = rows_.data + i * rows_.stride;
            for (std::int64_t k = 0; k < dim; ++k) finite &= std::fabs(row[k]) <= largest;
        }
        return finite;
    }

    core::Segment segment_;
    PointRows<Value> rows_;
    std::vector<std::int32_t> positions_;
    Buffer<Value> copy_;
    bool masked_ = false;
    bool finite_ = false;
};

}  // namespace rowmax::cpu
