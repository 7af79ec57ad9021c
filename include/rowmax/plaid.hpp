// PLAID: search of residual documents that looks at few of them. Its steps, and all of them in one call.
//
// Santhanam, Khattab, Potts and Zaharia, "PLAID: An Efficient Engine for Late Interaction Retrieval", 2022,
// https://arxiv.org/abs/2205.09707: every query token names its best centroids, their lists name documents, the
// documents' centroids alone say which of them are worth decoding, and those are scored exactly.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "rowmax/compressed.hpp"
#include "rowmax/error.hpp"
#include "rowmax/export.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax {

/// Documents one behind the other.
struct PlaidPart {
    TensorView codes;       ///< [T] int32 or int64
    TensorView residuals;   ///< [T, d * nbits / 8] uint8
    TensorView cu_seqlens;  ///< [N + 1] int32 or int64
};

/// Which documents have a token at which centroid: the lists of all centroids, one behind the other.
struct InvertedFile {
    TensorView documents;  ///< [entries] int32 or int64; of each list ascending, every document once
    TensorView lengths;    ///< [C] int32 or int64
};

/// The inverted file of documents, which are numbered through all parts; `residuals` are not looked at. A code outside
/// the table is an Error.
struct ROWMAX_API InvertedLists {
    std::vector<std::int64_t> documents;
    std::vector<std::int32_t> lengths;
    [[nodiscard]] InvertedFile view() const;
};
ROWMAX_API InvertedLists plaid_invert(std::span<const PlaidPart> parts, std::int64_t centroids);

/// The `nprobe` best centroids of every query token: centroid_scores [C, Lq] (float32, float16, bfloat16) -> cells
/// [Lq, min(nprobe, C)] int64, best first. Equal scores: the lowest centroid; NaN first.
ROWMAX_API void plaid_probe(const TensorView& centroid_scores, std::int64_t nprobe, const TensorView& cells,
                            const Options& options = {});

/// The documents in the lists of some cells (centroids: int32 or int64, any shape, repeats allowed), ascending, each
/// once. With `validate` a cell, a length or a document that is none is an Error; else it is passed over.
ROWMAX_API std::vector<std::int64_t> plaid_candidates(const TensorView& cells, const InvertedFile& lists,
                                                      std::int64_t num_documents, bool validate = true);

/// The same on a CUDA device, where nothing is waited for: the documents go to the beginning of found [num_documents]
/// int64, how many they are to count [1] int64.
ROWMAX_API void plaid_candidates(const TensorView& cells, const InvertedFile& lists, const TensorView& found,
                                 const TensorView& count, const Options& options);

/// Centroid scores [C, Lq] (float32, float16, bfloat16), codes [B, Ld] and doc_lengths [B] (int32 or int64) -> scores
/// [B] float32: the sum over query tokens of the largest score among a document's codes; 0 where it has none. Codes
/// outside the table and lengths beyond Ld are an Error where contents are validated, else they are clamped. Of the
/// options, `normalize`, `precision` and `kernel` mean nothing here.
ROWMAX_API void plaid_approx_score(const TensorView& centroid_scores, const TensorView& codes,
                                   const TensorView& doc_lengths, const TensorView& scores,
                                   const Options& options = {});

/// plaid_approx_score() of packed documents: codes [T], cu_seqlens [N + 1] and the numbers of the documents to score,
/// [B] int32 or int64 (absent: all) -> scores [B]. Centroids whose scores are below `threshold` for all query tokens
/// are passed over, as PLAID prunes them; a document of such tokens alone scores minus infinity.
ROWMAX_API void plaid_approx_score_packed(const TensorView& centroid_scores, const TensorView& codes,
                                          const TensorView& cu_seqlens, const TensorView& documents,
                                          const TensorView& scores,
                                          float threshold = -std::numeric_limits<float>::infinity(),
                                          const Options& options = {});

/// An index in memory, or mapped.
struct PlaidIndexView {
    ResidualTables tables;
    std::vector<PlaidPart> parts;  ///< documents are numbered through all of them
    InvertedFile lists;
};

struct PlaidSearchOptions {
    std::int64_t nprobe = 8;         ///< centroids that every query token looks at
    std::int64_t candidates = 1024;  ///< documents that get an exact score; at least k
    /// Centroids below it are left out of a first round of approximate scores, whose 4 x candidates best are scored
    /// with all centroids. Minus infinity: there is one round, with all.
    float threshold = -std::numeric_limits<float>::infinity();
};

/// The k best documents of every query, of those that PLAID finds: scores [Nq, k] float32 and index [Nq, k] int64, k
/// cut to the number of documents. Scores are those of score() to the bit, and lists in its order; where fewer than k
/// documents were found, the rest is minus infinity and -1. Queries are dense, packed or ranges, with a mask or none.
/// The same result for every number of threads.
ROWMAX_API void plaid_search(const TokenSet& q, const PlaidIndexView& index, std::int64_t k,
                             const PlaidSearchOptions& how, const Options& options, const TensorView& scores,
                             const TensorView& documents);

}  // namespace rowmax
