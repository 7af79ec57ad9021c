// Exact top-k selection: a bounded list per query that scores are pushed into, chunk by chunk.
// Order: NaN first, then higher scores, then lower document numbers; so the result does not depend on the chunks.
#pragma once

#include <cstdint>
#include <vector>

namespace rowmax::core {

struct Hit {
    double score = 0;
    std::int64_t document = -1;
};

/// True when `a` ranks before `b`.
bool ranks_before(const Hit& a, const Hit& b);

class TopK {
  public:
    TopK(std::int64_t queries, std::int64_t k);
    /// Offers document `document` with `score` for `query`.
    void push(std::int64_t query, double score, std::int64_t document);
    /// The last of the kept ones of `query`, of which there is one.
    [[nodiscard]] const Hit& worst(std::int64_t query) const { return heaps_[static_cast<std::size_t>(query)].front(); }
    /// The best of `query`, in order; at most k.
    [[nodiscard]] std::vector<Hit> ranked(std::int64_t query) const;
    [[nodiscard]] std::int64_t k() const { return k_; }
    [[nodiscard]] std::int64_t queries() const { return static_cast<std::int64_t>(heaps_.size()); }

  private:
    std::int64_t k_;
    std::vector<std::vector<Hit>> heaps_;  ///< worst kept hit on top
};

}  // namespace rowmax::core
