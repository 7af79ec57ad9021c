// Why a document got its score: which of its tokens answered each query token, and every similarity between them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/token_source.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::cli::explain {

struct Explanation {
    std::string query_id;
    std::string document_id;
    std::vector<std::string> query_tokens;  ///< text, or "q0", "q1", ... when there is none
    std::vector<std::string> document_tokens;
    std::vector<bool> query_kept;  ///< not hidden by a mask
    std::vector<bool> document_kept;

    double score = 0;
    std::vector<std::int32_t> winner;  ///< document token that answered each query token; -1: none
    std::vector<double> similarity;    ///< what each query token added; they sum to the score
    std::vector<double> matrix;        ///< [query tokens, document tokens], hidden tokens included

    [[nodiscard]] std::int64_t query_length() const { return static_cast<std::int64_t>(winner.size()); }
    [[nodiscard]] std::int64_t document_length() const { return static_cast<std::int64_t>(document_kept.size()); }
    [[nodiscard]] double at(std::int64_t query_token, std::int64_t document_token) const {
        return matrix[static_cast<std::size_t>(query_token * document_length() + document_token)];
    }
    /// Sum of the similarities, in the order of the query tokens.
    [[nodiscard]] double sum() const;
    /// How strongly each document token answered: the sum of what it added as a winner.
    [[nodiscard]] std::vector<double> answered() const;
};

/// rowmax::score(), wherever.
using Score = std::function<void(const ScoreRequest&, const ScoreOutputs&)>;

/// Scores one query against one document. The matrix comes from the same kernels: every token is scored as an item of
/// its own. Token texts are placeholders until set.
Explanation explain_pair(const io::TokenSource& queries, std::int64_t query, const io::TokenSource& documents,
                         std::int64_t document, const Options& options, const Score& score);

}  // namespace rowmax::cli::explain
