// Search: the exact k best documents of every query, over corpora of any size, block by block, on the CPU or on
// CUDA devices.
//
// Blocks of documents are scored one after another and their scores offered to a bounded list per query, so what a
// search allocates does not grow with the corpora. Because a pair's score has the same bits in any block and the lists
// do not depend on the order of offers, the ranking is the same for every memory cap, number of threads, number of
// devices of one kind, and interruption.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stream/engine.hpp"
#include "stream/search_state.hpp"

namespace rowmax::stream {

class Search {
  public:
    /// Documents are numbered through all corpora, in the order given. Throws Error when types or dimensions
    /// disagree, `memory` is too little for one document, or no kernel of the devices takes the tokens.
    Search(io::TokenSource queries, std::vector<io::TokenSource> corpora, const SearchOptions& options);

    /// Begins the next block, a fraction of a second of work. False when nothing is left to do and everything is done.
    bool step();
    /// Waits until everything that was begun is done: before a look at the best so far or a checkpoint.
    void settle() { engine_->settle(); }
    [[nodiscard]] bool finished() const { return state_->position.first == document_count(); }

    [[nodiscard]] std::int64_t query_count() const { return state_->query_count(); }
    [[nodiscard]] std::int64_t document_count() const { return state_->document_count(); }
    /// Documents begun, counted in (query, document) pairs.
    [[nodiscard]] std::int64_t pairs_done() const;
    [[nodiscard]] std::int64_t pairs_total() const { return query_count() * document_count(); }

    /// The best of a query so far, in order; at most k.
    [[nodiscard]] std::vector<core::Hit> ranked(std::int64_t query) const { return state_->best.ranked(query); }
    [[nodiscard]] std::string query_id(std::int64_t query) const { return state_->queries.id(query); }
    [[nodiscard]] std::string document_id(std::int64_t document) const;

    /// Scores are computed in this type: f64 for f64 tokens, else f32.
    [[nodiscard]] DType score_dtype() const;
    /// The name of the kernel that scores.
    [[nodiscard]] const std::string& kernel() const { return kernel_; }
    [[nodiscard]] const io::TokenSource& queries() const { return state_->queries; }
    [[nodiscard]] const std::vector<io::TokenSource>& corpora() const { return state_->corpora; }
    [[nodiscard]] const SearchOptions& options() const { return state_->options; }

    /// What a checkpoint saves besides the ranked lists, and how it is taken up again.
    [[nodiscard]] const SearchPosition& position() const { return state_->position; }
    [[nodiscard]] bool takes(const SearchPosition& position) const { return engine_->takes(position); }
    void resume(const SearchPosition& position, const std::vector<std::vector<core::Hit>>& ranked);

  private:
    std::unique_ptr<SearchState> state_;  ///< stays where it is, for the engine
    std::unique_ptr<Engine> engine_;
    std::string kernel_;
};

}  // namespace rowmax::stream
