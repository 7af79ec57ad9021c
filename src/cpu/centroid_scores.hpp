// What PLAID's steps share: scores of centroids, row by row, and the sum of the best of a document's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/params.hpp"
#include "rowmax/error.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::cpu {

/// Throws Error(invalid_value).
[[noreturn]] void refuse_value(const std::string& message);
/// Throws unless threads is 0 or more.
void check_threads(int threads);

/// Scores [centroids][query tokens], contiguous float32.
class CentroidScores {
  public:
    /// Checks the view; reads it in place where it is rows of float32.
    explicit CentroidScores(const TensorView& scores);

    [[nodiscard]] const float* row(std::int64_t centroid) const { return table_ + centroid * tokens_; }
    [[nodiscard]] std::int64_t centroids() const { return centroids_; }
    [[nodiscard]] std::int64_t tokens() const { return tokens_; }
    /// Of every centroid, whether some query token scores it at `threshold` or above; NaN does.
    [[nodiscard]] std::vector<std::uint8_t> kept(float threshold) const;

  private:
    const float* table_ = nullptr;
    std::int64_t centroids_ = 0;
    std::int64_t tokens_ = 0;
    std::unique_ptr<float[]> copy_;
};

/// A document's codes: `count` numbers that lie `stride` apart.
struct CodeRun {
    const void* codes = nullptr;
    bool wide = false;
    std::int64_t first = 0;
    std::int64_t stride = 1;
    std::int64_t count = 0;

    [[nodiscard]] std::int64_t at(std::int64_t token) const {
        return core::detail::read_int(codes, wide, first + token * stride);
    }
};

/// The sum over query tokens of their best score among the document's codes, clamped to the table; 0 without codes.
/// `kept`: of centroids, null for all; a document all of whose are left out scores minus infinity. `best` is scratch
/// for one row.
float score_codes(const CentroidScores& scores, const CodeRun& document, const std::uint8_t* kept, float* best);

/// int32 or int64, or an Error(invalid_type).
void check_codes_type(const TensorView& codes);

}  // namespace rowmax::cpu
