// Rankings, to be compared.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "stream/search.hpp"

namespace rowmax::test {

using Ranking = std::vector<std::vector<std::pair<double, std::int64_t>>>;

inline Ranking ranking_of(const stream::Search& search) {
    Ranking ranking;
    for (std::int64_t i = 0; i < search.query_count(); ++i) {
        auto& row = ranking.emplace_back();
        for (const core::Hit& hit : search.ranked(i)) row.emplace_back(hit.score, hit.document);
    }
    return ranking;
}

inline Ranking run(stream::Search search) {
    while (search.step()) {
    }
    return ranking_of(search);
}

/// What topk() finds in all documents at once.
inline Ranking all_at_once(const io::TokenSource& queries, const io::TokenSource& documents, std::int64_t k,
                           const Options& options = {}) {
    const std::vector<std::int64_t> shape{queries.count(), std::min(k, documents.count())};
    const auto size = static_cast<std::size_t>(shape[0] * shape[1]);
    std::vector<float> scores(size);
    std::vector<std::int64_t> index(size);
    const io::TokenBlock q = queries.all();
    const io::TokenBlock d = documents.all();
    topk(q.set, d.set, k, 0, options, TensorView(scores.data(), DType::f32, shape),
         TensorView(index.data(), DType::i64, shape));
    Ranking ranking(static_cast<std::size_t>(shape[0]));
    for (std::size_t i = 0; i < size; ++i)
        ranking[i / static_cast<std::size_t>(shape[1])].emplace_back(scores[i], index[i]);
    return ranking;
}

}  // namespace rowmax::test
