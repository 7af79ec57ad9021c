#include "stream/search_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rowmax::stream {

namespace {

std::vector<std::int64_t> first_documents(const std::vector<io::TokenSource>& corpora) {
    std::vector<std::int64_t> starts{0};
    for (const io::TokenSource& corpus : corpora) starts.push_back(starts.back() + corpus.count());
    return starts;
}

std::int64_t kept(std::int64_t k, std::int64_t documents) {
    if (k < 1) throw Error(ErrorCode::invalid_value, fmt::format("k must be at least 1, got {}", k));
    return std::min(k, documents);
}

void check_inputs(const io::TokenSource& queries, const std::vector<io::TokenSource>& corpora) {
    for (const io::TokenSource& corpus : corpora) {
        if (corpus.dtype() != queries.dtype()) {
            throw Error(
                ErrorCode::invalid_type,
                fmt::format("queries {} are {}, corpus {} is {}: both must have the same type", queries.path().string(),
                            name_of(queries.dtype()), corpus.path().string(), name_of(corpus.dtype())));
        }
        if (corpus.dim() != queries.dim()) {
            throw Error(ErrorCode::invalid_value,
                        fmt::format("queries {} have d = {}, corpus {} has d = {}", queries.path().string(),
                                    queries.dim(), corpus.path().string(), corpus.dim()));
        }
    }
}

}  // namespace

SearchState::SearchState(io::TokenSource queries_, std::vector<io::TokenSource> corpora_, SearchOptions options_)
    : queries(std::move(queries_)),
      corpora(std::move(corpora_)),
      options(std::move(options_)),
      starts(first_documents(corpora)),
      best(queries.count(), kept(options.k, starts.back())) {
    check_inputs(queries, corpora);
    if (query_count() == 0) position = {document_count(), document_count(), 0};
}

SearchState::Place SearchState::place(std::int64_t document) const {
    const auto after = std::upper_bound(starts.begin(), starts.end(), document);
    const auto corpus = static_cast<std::size_t>(after - starts.begin() - 1);
    return {corpus, document - starts[corpus]};
}

}  // namespace rowmax::stream
