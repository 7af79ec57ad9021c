// Sample: tokens of any layout with masks, made from a seed, and what scoring them gave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "rowmax/maxsim.hpp"

namespace rowmax::checks {

enum class Layout { dense, packed, ranges, grouped, zipped, list };
enum class Fill {
    integers,  ///< so small that every product and sum is exact in float32
    gaussians,
};

struct Spec {
    Layout layout = Layout::dense;
    std::int64_t queries = 2;
    std::int64_t documents = 3;  ///< grouped: of each query
    std::int64_t query_length = 5;
    std::int64_t document_length = 7;
    std::int64_t dim = 8;
    bool masks = false;  ///< any pattern; hidden tokens hold NaN, the first document is hidden whole
    bool normalize = false;
    Fill fill = Fill::integers;

    /// "packed 2 x 3, 5 x 7 x 8, masks", for reports.
    [[nodiscard]] std::string text() const;
};

class Sample {
  public:
    Sample(const Spec& spec, DType dtype, std::uint64_t seed);
    Sample(const Sample&) = delete;  // views point into it
    Sample& operator=(const Sample&) = delete;

    [[nodiscard]] const ScoreRequest& request() const { return request_; }
    [[nodiscard]] ScoreRequest& request() { return request_; }
    [[nodiscard]] const Spec& spec() const { return spec_; }

  private:
    using Rng = std::mt19937_64;
    struct Side {
        std::vector<std::byte> tokens;
        std::vector<std::uint8_t> mask;
        std::vector<std::int64_t> offsets;
        std::vector<std::int32_t> lengths;
    };
    void fill_tokens(Side& side, std::int64_t rows, Rng& rng) const;
    void mask_side(Side& side, std::int64_t items, std::int64_t length, bool hide_first, Rng& rng) const;
    void dense_side(Side& side, TokenSet& set, const std::vector<std::int64_t>& items, std::int64_t length,
                    bool hide_first, Rng& rng) const;
    void packed_side(Side& side, TokenSet& set, std::int64_t items, std::int64_t longest, Rng& rng) const;
    void ranges_side(Side& side, TokenSet& set, std::int64_t items, std::int64_t longest, Rng& rng) const;
    void list_pairs(Rng& rng);
    [[nodiscard]] double token_value(Rng& rng) const;

    Spec spec_;
    DType dtype_;
    Side query_;
    Side document_;
    std::vector<std::int32_t> pair_query_;
    std::vector<std::int32_t> pair_document_;
    ScoreRequest request_;
};

/// Writes `value` as element `i` of an array of f16, bf16, f32 or f64, rounding to nearest even.
void store(std::byte* array, DType dtype, std::int64_t i, double value);

}  // namespace rowmax::checks
