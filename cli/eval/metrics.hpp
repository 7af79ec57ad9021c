// The measures of ranked retrieval, as trec_eval defines them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/trec.hpp"

namespace rowmax::cli::eval {

enum class Kind { ndcg, map, recip_rank, recall, success, precision };

/// One measure; cut 0 looks at the whole ranking.
struct Measure {
    Kind kind = Kind::map;
    std::int64_t cut = 0;

    /// trec_eval's name: "map", "ndcg_cut_10", "recall_100", "P_5", "recip_rank", ...
    [[nodiscard]] std::string name() const;
};

/// Understands trec_eval's names and the usual ones: "nDCG@10", "MRR@10", "recall@100", "P@5", "map".
/// Throws Error (invalid_value) for anything else.
Measure parse_measure(std::string_view text);

/// One query's ranking, seen through its judgments.
struct JudgedRanking {
    std::vector<std::int64_t> relevance;  ///< of each ranked document, 0 when unjudged
    std::vector<std::int64_t> ideal;      ///< relevances above zero of all judged documents, descending
    std::int64_t num_relevant = 0;        ///< judged documents at or above the relevance level
    std::int64_t level = 1;               ///< what counts as relevant in binary measures
};

/// Ranks as trec_eval does, whatever the run's rank column says: score as float32, descending (NaN first); equal
/// scores by document id, descending.
JudgedRanking judge(std::vector<io::RunEntry> entries, const std::vector<io::Judgment>& judgments, std::int64_t level);

double value_of(const Measure& measure, const JudgedRanking& ranking);

}  // namespace rowmax::cli::eval
