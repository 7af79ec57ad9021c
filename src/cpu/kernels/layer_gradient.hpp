// The gradient of a projection: grad W = sum over winning tokens t of grad u_t h_t^T, grad b = sum of grad u_t.
#pragma once

#include <cstdint>
#include <vector>

#include "core/params.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/panel_matrix.hpp"
#include "cpu/kernels/tile_ops.hpp"
#include "cpu/kernels/winners.hpp"

namespace rowmax::cpu {

template <class Value>
class LayerGradient {
  public:
    LayerGradient(const TileOps& ops, const core::Params& params, const core::Gradients& gradients, int threads);

    [[nodiscard]] bool wanted() const { return gradients_.weight != nullptr || gradients_.bias != nullptr; }
    /// Adds the winners of a group, in runs of 256; `gradient`: of their tokens, `width` values apart.
    void add(const std::vector<Winner>& winners, const Value* gradient, std::int64_t width);
    /// Writes the sums, rounded once to their type.
    void finish() const;

  private:
    void add_run(const Winner* winners, const Value* gradient, std::int64_t width, std::int64_t count);
    void add_to_weight(const Winner* winners, const Value* gradient, std::int64_t width, std::int64_t count);
    void add_product(std::int64_t first_row, PanelRange panels);

    const TileOps& ops_;
    const core::Params& params_;
    const core::Gradients& gradients_;
    const core::Projection* projection_;
    int threads_;
    PanelMatrix<Value> states_;  ///< hidden states of a run: [panels][tokens][lanes]
    Buffer<Value> columns_;      ///< [d][tokens of a run]: the gradients of its tokens
    std::int64_t tokens_ = 0;    ///< of this run
    Buffer<Value> weight_;       ///< [d][hidden, padded]
    Buffer<Value> bias_;         ///< [d]
    Buffer<Value> bias_run_;
};

}  // namespace rowmax::cpu
