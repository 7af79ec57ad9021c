#include "cli/search_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/shared.hpp"
#include "core/parallel.hpp"

namespace rowmax::cli {

namespace {

constexpr std::int64_t step = 4096;  // documents between two looks at Ctrl-C

/// How many documents' scores are held at a time within a cap on memory; 0, chosen, without one.
std::int64_t chunk_within(std::int64_t memory, std::int64_t queries, std::int64_t kept, int threads) {
    if (memory == 0) return 0;
    constexpr std::int64_t mib = std::int64_t{1} << 20;
    // Lists, those of one step, and what kernels hold of queries and decoded tokens.
    const std::int64_t needed =
        held_bytes() + queries * (kept * 56 + 128) + 4 * mib + mib / 2 * core::thread_count(threads);
    if (memory - needed < 4 * queries) {
        throw Error(ErrorCode::out_of_memory,
                    fmt::format("memory: {} bytes are too little, at least {} are needed ({} queries with their k = {} "
                                "best)",
                                memory, needed + 4 * queries, queries, kept));
    }
    return std::clamp<std::int64_t>((memory - needed) / 4 / std::max<std::int64_t>(queries, 1), 1, step);
}

/// Scores some documents and pushes them into the lists.
void search_block(const io::TokenBlock& queries, const TokenSet& documents, std::int64_t first, std::int64_t chunk,
                  const Options& options, core::TopK& best) {
    const std::int64_t count = documents.cu_seqlens.shape[0] - 1;
    const std::int64_t kept = std::min(best.k(), count);
    std::vector<float> scores(static_cast<std::size_t>(best.queries() * kept));
    std::vector<std::int64_t> index(scores.size());
    const std::int64_t shape[] = {best.queries(), kept};
    topk(queries.set, documents, best.k(), chunk, options, TensorView(scores.data(), DType::f32, shape),
         TensorView(index.data(), DType::i64, shape));
    for (std::int64_t i = 0; i < best.queries(); ++i) {
        for (std::int64_t j = 0; j < kept; ++j) {
            const auto at = static_cast<std::size_t>(i * kept + j);
            best.push(i, static_cast<double>(scores[at]), first + index[at]);
        }
    }
}

/// The lists of a search, however it was done.
Ranking ranking_of(const io::PlaidIndex& index, const io::TokenSource& queries, std::int64_t k,
                   const std::shared_ptr<const core::TopK>& best) {
    return {queries.count(),
            std::min(k, index.count()),
            DType::f32,
            [&queries](std::int64_t i) { return queries.id(i); },
            [](std::int64_t document) { return std::to_string(document); },
            [best](std::int64_t i) { return best->ranked(i); }};
}

std::shared_ptr<core::TopK> empty_lists(const io::PlaidIndex& index, const io::TokenSource& queries, std::int64_t k) {
    return std::make_shared<core::TopK>(queries.count(), std::max<std::int64_t>(std::min(k, index.count()), 1));
}

}  // namespace

Ranking search_index(const io::PlaidIndex& index, const io::TokenSource& queries, std::int64_t k,
                     const Options& options, std::int64_t memory) {
    const io::TokenBlock all = queries.all();
    const ResidualTables tables = index.tables();
    const auto best = empty_lists(index, queries, k);
    const std::int64_t held = chunk_within(memory, queries.count(), best->k(), options.threads);
    Progress progress("searching", "documents");
    std::int64_t done = 0;
    std::vector<std::int64_t> cu_seqlens;
    for (const io::PlaidChunk& chunk : index.chunks()) {
        for (std::int64_t first = 0; first < chunk.count(); first += step) {
            const std::int64_t last = std::min(first + step, chunk.count());
            const TokenSet documents = io::PlaidIndex::documents(chunk, first, last, tables, cu_seqlens);
            if (queries.count() > 0) search_block(all, documents, done, held, options, *best);
            done += last - first;
            progress.update(done, index.count());
        }
    }
    progress.finish();
    return ranking_of(index, queries, k, best);
}

Ranking probe_index(const io::PlaidIndex& index, const io::TokenSource& queries, std::int64_t k,
                    const PlaidSearchOptions& how, const Options& options) {
    constexpr std::int64_t query_step = 64;  // between two looks at Ctrl-C
    const io::PlaidLists lists = index.lists();
    const PlaidIndexView view = index.view(lists);
    const auto best = empty_lists(index, queries, k);
    const std::int64_t kept = std::min(k, index.count());
    Progress progress("searching", "queries");
    for (std::int64_t first = 0; first < queries.count() && kept > 0; first += query_step) {
        const std::int64_t last = std::min(first + query_step, queries.count());
        const io::TokenBlock block = queries.block(first, last);
        std::vector<float> scores(static_cast<std::size_t>((last - first) * kept));
        std::vector<std::int64_t> found(scores.size());
        plaid_search(block.set, view, kept, how, options, TensorView(scores.data(), DType::f32, {last - first, kept}),
                     TensorView(found.data(), DType::i64, {last - first, kept}));
        for (std::size_t at = 0; at < found.size(); ++at) {
            const std::int64_t query = first + static_cast<std::int64_t>(at) / kept;
            if (found[at] >= 0) best->push(query, double{scores[at]}, found[at]);
        }
        progress.update(last, queries.count());
    }
    progress.finish();
    return ranking_of(index, queries, k, best);
}

}  // namespace rowmax::cli
