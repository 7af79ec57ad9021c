// A matrix packed for the kernel that multiplies rows by it (project.hpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/half.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/row_values.hpp"
#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {

struct PanelRange {
    std::int64_t first = 0;
    std::int64_t end = 0;
};

/// [panels][steps][lanes]: column c of the matrix is lane c % lanes of panel c / lanes; zeros behind the last column.
template <class Value>
class PanelMatrix {
  public:
    /// Makes room for steps x columns numbers, all of which are then to be set.
    void reshape(const TileOps& ops, std::int64_t steps, std::int64_t columns) {
        lanes_ = project_lanes<Value>(ops);
        steps_ = steps;
        columns_ = columns;
        Value* data = data_.reserve(width() * steps);
        if (width() != columns) std::fill_n(data + (panels() - 1) * steps * lanes_, steps * lanes_, Value{0});
    }

    [[nodiscard]] std::int64_t panels() const { return (columns_ + lanes_ - 1) / lanes_; }
    [[nodiscard]] std::int64_t lanes() const { return lanes_; }
    /// Columns, and the padding behind them.
    [[nodiscard]] std::int64_t width() const { return panels() * lanes_; }

    /// `values`: one for each step.
    void set_column(std::int64_t column, const std::byte* values) {
        Value* to = data_.data() + column / lanes_ * steps_ * lanes_ + column % lanes_;
        for (std::int64_t k = 0; k < steps_; ++k) to[k * lanes_] = value(values, k);
    }

    /// `values`: one for each column.
    void set_step(std::int64_t step, const std::byte* values) {
        for (std::int64_t panel = 0; panel < panels(); ++panel) {
            Value* to = data_.data() + (panel * steps_ + step) * lanes_;
            const std::int64_t count = std::min(lanes_, columns_ - panel * lanes_);
            for (std::int64_t c = 0; c < count; ++c) to[c] = value(values, panel * lanes_ + c);
        }
    }

    /// to[r][c] = row r x column c of the panels of `range`, + bias[c]; c counts from the range's first column.
    /// Products are added in chains of `run` (tile.hpp). Behind the rows lie row_padding repetitions of the last, and
    /// `to` has room for theirs.
    void multiply(const TileOps& ops, PanelRange range, const std::byte* const* rows, std::int64_t count,
                  std::int64_t run, const Value* bias, Value* to, std::int64_t stride) const {
        ProjectArgs<Value> args;
        args.product.panels = data_.data() + range.first * steps_ * lanes_;
        args.product.panel_count = range.end - range.first;
        args.product.dim = steps_;
        args.product.run = run;
        args.product.rows = rows;
        args.product.row_count = count;
        args.bias = bias;
        args.to = to;
        args.stride = stride;
        project_function<Value>(ops)(args);
    }

  private:
    static Value value(const std::byte* values, std::int64_t at) {
        return core::load<Value>(values + at * std::int64_t{sizeof(Value)});
    }

    std::int64_t lanes_ = 1;
    std::int64_t steps_ = 0;
    std::int64_t columns_ = 0;
    Buffer<Value> data_;
};

}  // namespace rowmax::cpu
