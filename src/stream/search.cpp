#include "stream/search.hpp"

#include <utility>

namespace rowmax::stream {

Search::Search(io::TokenSource queries, std::vector<io::TokenSource> corpora, const SearchOptions& options)
    : state_(std::make_unique<SearchState>(std::move(queries), std::move(corpora), options)),
      engine_(options.devices.empty() ? host_engine(*state_) : device_engine(*state_)),
      kernel_(engine_->kernel()) {}

DType Search::score_dtype() const {
    return state_->queries.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

std::string Search::document_id(std::int64_t document) const {
    const SearchState::Place at = state_->place(document);
    const io::TokenSource& corpus = state_->corpora[at.corpus];
    // Items without ids are called by number, and of several corpora the numbers go on.
    return corpus.ids().stored() ? corpus.id(at.item) : std::to_string(document);
}

std::int64_t Search::pairs_done() const {
    const SearchPosition& at = state_->position;
    return at.first * query_count() + (at.last - at.first) * at.queries;
}

bool Search::step() {
    if (finished()) {
        settle();
        return false;
    }
    engine_->step();
    return true;
}

void Search::resume(const SearchPosition& position, const std::vector<std::vector<core::Hit>>& ranked) {
    state_->best = core::TopK(query_count(), state_->best.k());
    for (std::size_t i = 0; i < ranked.size(); ++i) {
        for (const core::Hit& hit : ranked[i]) state_->best.push(static_cast<std::int64_t>(i), hit.score, hit.document);
    }
    state_->position = position;
}

}  // namespace rowmax::stream
