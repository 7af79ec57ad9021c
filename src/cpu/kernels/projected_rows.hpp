// Documents that are hidden states as rows of tokens: W h + b in float32 (float64), a few rows at a time.
#pragma once

#include <cstdint>

#include "core/params.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/panel_matrix.hpp"
#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {

template <class Value>
class ProjectedRows {
  public:
    /// Packs the layer once for a call; nothing, where the problem's documents are no hidden states.
    ProjectedRows(const TileOps& ops, const core::Params& params);

    [[nodiscard]] bool given() const { return projection_ != nullptr; }
    /// Values between two tokens of project().
    [[nodiscard]] std::int64_t width() const { return weight_.width(); }

    /// The tokens of `count` hidden states: to[r] is d values and padding. Behind the states' addresses lie row_padding
    /// repetitions of the last, and `to` has room for theirs. `scratch` is the caller's.
    void project(Buffer<Value>& scratch, const std::byte* const* states, std::int64_t count, Value* to) const;

  private:
    void pack_bias();

    const TileOps& ops_;
    const core::Projection* projection_;
    DType dtype_;
    std::int64_t dim_;
    PanelMatrix<Value> weight_;
    Buffer<Value> bias_;
};

}  // namespace rowmax::cpu
