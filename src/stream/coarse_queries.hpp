// Queries as a coarse form of documents is compared with.
#pragma once

#include <cstddef>
#include <vector>

#include "rowmax/corpus.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::stream {

/// The type of their tokens: codes beside codes, and beside sign bits as they are.
DType coarse_query_dtype(Coarse form, DType tokens);

class CoarseQueries {
  public:
    /// `queries` must outlive it.
    CoarseQueries(const TokenSet& queries, Coarse form, int threads);
    CoarseQueries(const CoarseQueries&) = delete;  ///< the set points into it
    CoarseQueries& operator=(const CoarseQueries&) = delete;
    [[nodiscard]] const TokenSet& set() const { return set_; }

  private:
    TokenSet set_;
    std::vector<std::byte> codes_;
    std::vector<float> scale_;
};

}  // namespace rowmax::stream
