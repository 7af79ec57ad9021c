// Search: the exact k best documents of every query, over corpora of any size, block by block.
//
// A step scores one block of documents against one block of queries in one kernel call and offers the scores to
// a bounded list per query. Corpora that are mapped are scored in place, so what a search allocates does not grow
// with them. Because a pair's score has the same bits in any block and the lists do not depend on the order of
// offers, the ranking is the same for every memory cap, number of threads and interruption.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/topk.hpp"
#include "io/token_source.hpp"
#include "rowmax/maxsim.hpp"
#include "stream/step_plan.hpp"

namespace rowmax::stream {

struct SearchOptions {
    std::int64_t k = 10;
    /// What the search may allocate, in bytes; 0: as it likes.
    std::int64_t memory = 0;
    std::int64_t held = 0;  ///< bytes of it that the process has taken already
    /// The kernel name's characters must outlive the search.
    Options score;
};

/// How far a search has come: documents [0, first) are done, and documents [first, last) for queries [0, queries).
struct SearchPosition {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t queries = 0;
};

class Search {
  public:
    /// Documents are numbered through all corpora, in the order given. Throws Error when types or dimensions
    /// disagree or `memory` is too little for one document.
    Search(io::TokenSource queries, std::vector<io::TokenSource> corpora, const SearchOptions& options);

    /// Scores the next block, a fraction of a second of work. False when nothing was left to do.
    bool step();
    [[nodiscard]] bool finished() const { return position_.first == document_count(); }

    [[nodiscard]] std::int64_t query_count() const { return queries_.count(); }
    [[nodiscard]] std::int64_t document_count() const { return starts_.back(); }
    /// Documents done, counted in (query, document) pairs.
    [[nodiscard]] std::int64_t pairs_done() const;
    [[nodiscard]] std::int64_t pairs_total() const { return query_count() * document_count(); }

    /// The best of a query so far, in order; at most k.
    [[nodiscard]] std::vector<core::Hit> ranked(std::int64_t query) const { return best_.ranked(query); }
    [[nodiscard]] std::string query_id(std::int64_t query) const { return queries_.id(query); }
    [[nodiscard]] std::string document_id(std::int64_t document) const;

    /// Scores are computed in this type: f64 for f64 tokens, else f32.
    [[nodiscard]] DType score_dtype() const;
    /// The name of the kernel that scores.
    [[nodiscard]] const std::string& kernel() const { return kernel_; }
    [[nodiscard]] const io::TokenSource& queries() const { return queries_; }
    [[nodiscard]] const std::vector<io::TokenSource>& corpora() const { return corpora_; }
    [[nodiscard]] const SearchOptions& options() const { return options_; }

    /// What a checkpoint saves besides the ranked lists, and how it is taken up again.
    [[nodiscard]] const SearchPosition& position() const { return position_; }
    void resume(const SearchPosition& position, const std::vector<std::vector<core::Hit>>& ranked);

  private:
    struct Place {
        std::size_t corpus = 0;
        std::int64_t item = 0;
    };
    [[nodiscard]] Place place(std::int64_t document) const;
    void check_inputs() const;
    void plan_memory();
    void choose_kernel();
    void load_documents();
    void load_queries(std::int64_t first, std::int64_t last);
    void score_block(std::int64_t queries);

    io::TokenSource queries_;
    std::vector<io::TokenSource> corpora_;
    SearchOptions options_;
    std::vector<std::int64_t> starts_;  ///< number of each corpus' first document; last: of all documents
    std::vector<bool> copied_;          ///< of each corpus: blocks are copies, not views
    StepPlan plan_;
    std::string kernel_;
    core::TopK best_;
    SearchPosition position_;

    io::TokenBlock documents_;  ///< position_.first .. last, once loaded
    std::int64_t documents_first_ = -1;
    io::TokenBlock query_block_;
    std::int64_t query_block_first_ = -1;
    std::vector<std::byte> scores_;
};

}  // namespace rowmax::stream
