// Ranking the documents of corpora by their coarse form first, and the best of them exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/ranking.hpp"
#include "io/token_source.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::cli {

struct TwoStageRequest {
    std::int64_t k = 100;
    std::int64_t candidates = 0;
    std::string form;         ///< empty: the first that all corpora have
    std::int64_t memory = 0;  ///< as stream::TwoStageOptions
    Options score;
};

/// `queries` and `corpora`, which must be corpus files, must outlive the result.
Ranking search_two_stage(const io::TokenSource& queries, const std::vector<io::TokenSource>& corpora,
                         const TwoStageRequest& request);

}  // namespace rowmax::cli
