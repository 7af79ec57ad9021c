#include "stream/search_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stream/coarse_queries.hpp"

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

/// `scored`: the type of queries as they are scored.
void check_inputs(const io::TokenSource& queries, DType scored, const std::vector<io::TokenSource>& corpora) {
    for (const io::TokenSource& corpus : corpora) {
        if (corpus.dtype() == DType::u8) continue;  // packed bits: the kernel's problem says what does not fit
        if (corpus.dtype() != scored) {
            throw Error(
                ErrorCode::invalid_type,
                fmt::format("queries {} are {}, corpus {} is {}: both must have the same type", queries.path().string(),
                            name_of(scored), corpus.path().string(), name_of(corpus.dtype())));
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
    check_inputs(queries, query_dtype(), corpora);
    if (query_count() == 0) position = {document_count(), document_count(), 0};
}

DType SearchState::query_dtype() const {
    return options.form ? coarse_query_dtype(*options.form, queries.dtype()) : queries.dtype();
}

SearchState::Place SearchState::place(std::int64_t document) const {
    const auto after = std::upper_bound(starts.begin(), starts.end(), document);
    const auto corpus = static_cast<std::size_t>(after - starts.begin() - 1);
    return {corpus, document - starts[corpus]};
}

}  // namespace rowmax::stream
