// Tokens as a centroid's number and bucket numbers of what is left, as ColBERTv2 makes them (Santhanam et al., 2022,
// https://arxiv.org/abs/2112.01488).
#pragma once

#include <cstdint>
#include <vector>

#include "io/kmeans.hpp"

namespace rowmax::io {

/// Tables whose numbers fit float16, so that they are the same to readers that narrow them.
struct ResidualCodec {
    int nbits = 4;
    Rows centroids;
    std::vector<float> cutoffs;       ///< [2^nbits - 1]: bucket b holds what is above cutoff b - 1, up to cutoff b
    std::vector<float> weights;       ///< [2^nbits]
    std::vector<float> avg_residual;  ///< [d]: mean magnitudes
    float cluster_threshold = 0;      ///< three quarters of residuals are no longer

    [[nodiscard]] std::int64_t bytes() const { return centroids.dim * nbits / 8; }
};

/// Cutoffs and weights are quantiles of the residuals of (some of) the rows, which have length 1; the centroids are
/// rounded to float16 first.
ResidualCodec train_codec(const Rows& rows, Rows centroids, int nbits, int threads);

/// Codes [rows] and residuals [rows, bytes()] in ColBERT's order of bits.
void encode_rows(const ResidualCodec& codec, const Rows& rows, int threads, std::vector<std::int64_t>& codes,
                 std::vector<std::uint8_t>& residuals);

}  // namespace rowmax::io
