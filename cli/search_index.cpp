#include "cli/search_index.hpp"

#include <algorithm>
#include <memory>

#include "cli/shared.hpp"

namespace rowmax::cli {

namespace {

/// Scores some documents and pushes them into the lists.
void search_block(const io::TokenBlock& queries, const TokenSet& documents, std::int64_t first, const Options& options,
                  core::TopK& best) {
    const std::int64_t count = documents.cu_seqlens.shape[0] - 1;
    const std::int64_t kept = std::min(best.k(), count);
    std::vector<float> scores(static_cast<std::size_t>(best.queries() * kept));
    std::vector<std::int64_t> index(scores.size());
    const std::int64_t shape[] = {best.queries(), kept};
    topk(queries.set, documents, best.k(), 0, options, TensorView(scores.data(), DType::f32, shape),
         TensorView(index.data(), DType::i64, shape));
    for (std::int64_t i = 0; i < best.queries(); ++i) {
        for (std::int64_t j = 0; j < kept; ++j) {
            const auto at = static_cast<std::size_t>(i * kept + j);
            best.push(i, static_cast<double>(scores[at]), first + index[at]);
        }
    }
}

}  // namespace

Ranking search_index(const io::PlaidIndex& index, const io::TokenSource& queries, std::int64_t k,
                     const Options& options) {
    constexpr std::int64_t step = 4096;  // documents between two looks at Ctrl-C
    const io::TokenBlock all = queries.all();
    const ResidualTables tables = index.tables();
    const std::int64_t kept = std::min(k, index.count());
    const auto best = std::make_shared<core::TopK>(queries.count(), std::max<std::int64_t>(kept, 1));
    Progress progress("searching", "documents");
    std::int64_t done = 0;
    std::vector<std::int64_t> cu_seqlens;
    for (const io::PlaidChunk& chunk : index.chunks()) {
        for (std::int64_t first = 0; first < chunk.count(); first += step) {
            const std::int64_t last = std::min(first + step, chunk.count());
            const TokenSet documents = io::PlaidIndex::documents(chunk, first, last, tables, cu_seqlens);
            if (queries.count() > 0) search_block(all, documents, done, options, *best);
            done += last - first;
            progress.update(done, index.count());
        }
    }
    progress.finish();
    return {queries.count(),
            kept,
            DType::f32,
            [&queries](std::int64_t i) { return queries.id(i); },
            [](std::int64_t document) { return std::to_string(document); },
            [best](std::int64_t i) { return best->ranked(i); }};
}

}  // namespace rowmax::cli
