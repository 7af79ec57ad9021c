// Residual documents as rows of floats: centroid + bucket weight, added in float32.
#pragma once

#include <cstdint>
#include <vector>

#include "core/params.hpp"
#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {

class ResidualRows {
  public:
    /// Nothing, where the problem's documents are no residuals.
    explicit ResidualRows(const core::Params& params);

    /// The row of a token: `residual` its packed bytes, `at` where its code lies, counted as the codes are. `to` has d
    /// floats.
    void decode(const TileOps& ops, const std::byte* residual, std::int64_t at, float* to) const;

  private:
    /// The centroid where it lies, or widened to `to`.
    const float* read_centroid(const TileOps& ops, std::int64_t at, float* to) const;

    const core::Residual* residual_ = nullptr;
    std::int64_t dim_ = 0;
    std::vector<float> of_byte_;  ///< [256][values in a byte]: the weights that a byte stands for
};

}  // namespace rowmax::cpu
