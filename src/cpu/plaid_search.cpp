// The steps of a PLAID search, query by query.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>

#include "core/element.hpp"
#include "core/float_mode.hpp"
#include "core/overlap.hpp"
#include "core/parallel.hpp"
#include "core/problem.hpp"
#include "core/residual.hpp"
#include "core/sides.hpp"
#include "core/token_rows.hpp"
#include "core/topk.hpp"
#include "cpu/centroid_scores.hpp"
#include "rowmax/plaid.hpp"

namespace rowmax {

namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
using Numbers = std::vector<std::int64_t>;

TensorView view_of(const Numbers& numbers) {
    return {numbers.data(), DType::i64, {static_cast<std::int64_t>(numbers.size())}};
}
TensorView view_of(const std::vector<float>& numbers) {
    return {numbers.data(), DType::f32, {static_cast<std::int64_t>(numbers.size())}};
}

/// Centroids as float32, each a document of one token.
class Centroids {
  public:
    explicit Centroids(const TensorView& stored) {
        core::Copies copies;
        const core::TokenRows rows(copies, stored);
        const auto dim = static_cast<std::size_t>(rows.dim());
        values_.resize(static_cast<std::size_t>(rows.count()) * dim);
        for (std::int64_t c = 0; c < rows.count(); ++c) {
            float* to = values_.data() + static_cast<std::size_t>(c) * dim;
            const float* row = core::row_as<float>(rows.at(c), rows.dtype(), rows.dim(), to);
            if (row != to) std::copy_n(row, dim, to);
        }
        view_ = TensorView(values_.data(), DType::f32, {rows.count(), 1, rows.dim()});
    }
    [[nodiscard]] const TensorView& view() const { return view_; }
    [[nodiscard]] std::int64_t count() const { return view_.shape[0]; }

  private:
    std::vector<float> values_;
    TensorView view_;
};

/// One query: its tokens as they are, for the exact scores, and those that are kept, as float32.
struct Query {
    TokenSet exact;
    std::vector<std::uint8_t> mask;
    std::vector<float> kept;  ///< [tokens][d]
    std::int64_t tokens = 0;

    Query(const core::Segments& side, std::int64_t number, DType dtype, std::int64_t dim) {
        const core::Segment segment = side.at(number);
        const auto size = static_cast<std::int64_t>(size_of(dtype));
        const std::int64_t shape[] = {segment.length, dim};
        const std::int64_t stride[] = {side.row_stride / size, 1};
        exact.tokens = TensorView(segment.data, dtype, shape, stride);
        for (std::int64_t t = 0; t < segment.length; ++t) {
            mask.push_back(side.keeps(segment, t) ? 1 : 0);
            if (mask.back() == 0) continue;
            ++tokens;
            const std::byte* row = segment.data + t * side.row_stride;
            for (std::int64_t i = 0; i < dim; ++i) {
                kept.push_back(static_cast<float>(core::read_element(row + i * size, dtype)));
            }
        }
        if (tokens < segment.length) exact.mask = TensorView(mask.data(), DType::boolean, {segment.length});
    }
};

/// The `count` best of some documents, ascending by number.
Numbers best_of(const Numbers& documents, const std::vector<float>& scores, std::int64_t count) {
    if (static_cast<std::int64_t>(documents.size()) <= count) return documents;
    std::vector<core::Hit> hits;
    hits.reserve(documents.size());
    for (std::size_t i = 0; i < documents.size(); ++i) hits.push_back({double{scores[i]}, documents[i]});
    std::nth_element(hits.begin(), hits.begin() + (count - 1), hits.end(), core::ranks_before);
    Numbers best;
    for (std::int64_t i = 0; i < count; ++i) best.push_back(hits[static_cast<std::size_t>(i)].document);
    std::sort(best.begin(), best.end());
    return best;
}

class PlaidSearch {
  public:
    PlaidSearch(const TokenSet& q, const PlaidIndexView& index, const PlaidSearchOptions& how, const Options& options)
        : index_(index), how_(how), options_(options), dtype_(q.tokens.dtype) {
        check_request(q);
        dim_ = q.tokens.shape[q.tokens.ndim - 1];
        queries_ = core::make_segments(copies_, q, core::named(q, core::query_names), core::validates(options));
        centroids_ = std::make_unique<Centroids>(index.tables.centroids);
        for (const PlaidPart& part : index.parts) add_part(part);
        const core::IntList lengths = core::int_list(copies_, index.lists.lengths, "ivf_lengths");
        if (lengths.count != centroids_->count()) {
            cpu::refuse_value(fmt::format("ivf_lengths has {} lengths, but there are {} centroids", lengths.count,
                                          centroids_->count()));
        }
    }

    [[nodiscard]] std::int64_t queries() const { return queries_.count; }
    [[nodiscard]] std::int64_t documents() const { return starts_.back(); }

    /// The best of query i, on so many threads; at most k.
    [[nodiscard]] std::vector<core::Hit> best(std::int64_t i, std::int64_t k, int threads) const {
        const Query query(queries_, i, dtype_, dim_);
        core::TopK best(1, k);
        if (query.tokens > 0 && centroids_->count() > 0) {
            const Numbers chosen = candidates(query, std::max(k, how_.candidates), threads);
            const std::vector<float> scores = exact_scores(query, chosen, threads);
            for (std::size_t c = 0; c < chosen.size(); ++c) best.push(0, double{scores[c]}, chosen[c]);
        }
        return best.ranked(0);
    }

  private:
    void check_request(const TokenSet& q) const;
    void add_part(const PlaidPart& part);
    [[nodiscard]] Numbers candidates(const Query& query, std::int64_t count, int threads) const;
    [[nodiscard]] std::vector<float> approximate(const TensorView& table, const Numbers& documents, float threshold,
                                                 int threads) const;
    [[nodiscard]] std::vector<float> exact_scores(const Query& query, const Numbers& documents, int threads) const;
    void score_part(const Query& query, std::size_t part, const Numbers& documents, std::size_t first, std::size_t last,
                    int threads, float* scores) const;

    /// Calls f(part, first, last) for the stretches of `documents` that lie in one part.
    template <class F>
    void for_parts(const Numbers& documents, F f) const {
        for (std::size_t first = 0; first < documents.size();) {
            const auto after = std::upper_bound(starts_.begin(), starts_.end(), documents[first]);
            const auto end = std::lower_bound(documents.begin(), documents.end(), *after);
            const auto last = static_cast<std::size_t>(end - documents.begin());
            f(static_cast<std::size_t>(after - starts_.begin()) - 1, first, last);
            first = last;
        }
    }

    const PlaidIndexView& index_;
    const PlaidSearchOptions& how_;
    const Options& options_;
    DType dtype_;
    std::int64_t dim_ = 0;
    core::Copies copies_;
    core::Segments queries_;
    std::unique_ptr<Centroids> centroids_;
    std::vector<core::IntList> offsets_;  ///< of each part
    Numbers starts_{0};                   ///< the first document of each part, and how many there are
};

// Types and shapes, as those of any request over residual documents.
void PlaidSearch::check_request(const TokenSet& q) const {
    if (options_.device.kind != Device::Kind::cpu) {
        throw Error(ErrorCode::not_implemented, "plaid_search works on the CPU");
    }
    if (options_.normalize) {
        throw Error(ErrorCode::not_implemented, "normalize: a PLAID search takes queries as they are");
    }
    ScoreRequest request;
    request.q = q;
    core::check_input(index_.tables.centroids, "centroids");
    request.d.residual = &index_.tables;
    const std::int64_t dim = q.tokens.ndim > 0 ? q.tokens.shape[q.tokens.ndim - 1] : 0;
    request.d.tokens = TensorView(nullptr, DType::u8, {0, (dim * index_.tables.nbits + 7) / 8});
    request.d.codes = TensorView(nullptr, DType::i64, {0});
    core::check_residual(request);
    core::check_layout(q, core::named(q, core::query_names));
    for (const PlaidPart& part : index_.parts) {
        request.d.tokens = part.residuals;
        request.d.codes = part.codes;
        request.d.cu_seqlens = part.cu_seqlens;
        core::check_residual(request);
        core::check_layout(request.d, core::residual_names);
    }
}

void PlaidSearch::add_part(const PlaidPart& part) {
    const core::IntList offsets = core::int_list(copies_, part.cu_seqlens, "cu_seqlens");
    if (offsets.count < 1) cpu::refuse_value("cu_seqlens is empty: it needs one offset more than documents");
    if (core::validates(options_)) {
        TokenSet set;
        set.tokens = part.residuals;
        set.cu_seqlens = part.cu_seqlens;
        core::Copies copies;
        core::make_segments(copies, set, core::residual_names, true);
    }
    offsets_.push_back(offsets);
    starts_.push_back(starts_.back() + offsets.count - 1);
}

Numbers PlaidSearch::candidates(const Query& query, std::int64_t count, int threads) const {
    const bool validate = core::validates(options_);
    ScoreRequest request;
    request.q.tokens = TensorView(query.kept.data(), DType::f32, {query.tokens, dim_});
    request.d.tokens = centroids_->view();
    request.options.threads = threads;
    const std::int64_t all = centroids_->count();
    const auto table = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(all * query.tokens));
    std::vector<float> sums(static_cast<std::size_t>(all));
    const TensorView scores(table.get(), DType::f32, {all, query.tokens});
    score(request, {view_of(sums), {}, scores});
    Numbers cells(static_cast<std::size_t>(query.tokens * std::min(how_.nprobe, all)));
    Options shared;
    shared.threads = threads;
    plaid_probe(scores, how_.nprobe, TensorView(cells.data(), DType::i64, {query.tokens, std::min(how_.nprobe, all)}),
                shared);
    Numbers found = plaid_candidates(view_of(cells), index_.lists, documents(), validate);
    if (how_.threshold > minus_infinity) {
        constexpr std::int64_t rounds = 4;  // as PLAID: ndocs by pruned scores, a quarter of them by all centroids
        const std::int64_t wide = count > documents() / rounds ? documents() : count * rounds;
        if (static_cast<std::int64_t>(found.size()) > wide)
            found = best_of(found, approximate(scores, found, how_.threshold, threads), wide);
    }
    if (static_cast<std::int64_t>(found.size()) <= count) return found;
    return best_of(found, approximate(scores, found, minus_infinity, threads), count);
}

std::vector<float> PlaidSearch::approximate(const TensorView& table, const Numbers& documents, float threshold,
                                            int threads) const {
    std::vector<float> scores(documents.size());
    for_parts(documents, [&](std::size_t part, std::size_t first, std::size_t last) {
        Numbers here;
        for (std::size_t i = first; i < last; ++i) here.push_back(documents[i] - starts_[part]);
        const TensorView to(scores.data() + first, DType::f32, {static_cast<std::int64_t>(last - first)});
        Options options;
        options.validate = core::validates(options_);
        options.threads = threads;
        plaid_approx_score_packed(table, index_.parts[part].codes, index_.parts[part].cu_seqlens, view_of(here), to,
                                  threshold, options);
    });
    return scores;
}

std::vector<float> PlaidSearch::exact_scores(const Query& query, const Numbers& documents, int threads) const {
    std::vector<float> scores(documents.size());
    for_parts(documents, [&](std::size_t part, std::size_t first, std::size_t last) {
        score_part(query, part, documents, first, last, threads, scores.data() + first);
    });
    return scores;
}

void PlaidSearch::score_part(const Query& query, std::size_t part, const Numbers& documents, std::size_t first,
                             std::size_t last, int threads, float* scores) const {
    const core::IntList& all = offsets_[part];
    const std::int64_t tokens = index_.parts[part].codes.shape[0];
    Numbers offsets;
    Numbers lengths;
    for (std::size_t i = first; i < last; ++i) {
        const std::int64_t number = documents[i] - starts_[part];
        const auto offset = [&](std::int64_t n) {
            return core::detail::clamp(core::detail::read_int(all.data, all.wide, n), 0, tokens);
        };
        offsets.push_back(offset(number));
        lengths.push_back(std::max<std::int64_t>(offset(number + 1) - offset(number), 0));
    }
    ScoreRequest request;
    request.q = query.exact;
    request.d.tokens = index_.parts[part].residuals;
    request.d.codes = index_.parts[part].codes;
    request.d.offsets = view_of(offsets);
    request.d.lengths = view_of(lengths);
    request.d.residual = &index_.tables;
    request.options = options_;
    request.options.threads = threads;
    score(request, {TensorView(scores, DType::f32, {static_cast<std::int64_t>(last - first)}), {}, {}});
}

void check_options(std::int64_t k, const PlaidSearchOptions& how, const Options& options) {
    cpu::check_threads(options.threads);
    if (k < 1) cpu::refuse_value(fmt::format("k must be at least 1, got {}", k));
    if (how.nprobe < 1) cpu::refuse_value(fmt::format("nprobe must be at least 1, got {}", how.nprobe));
    if (how.candidates < 1) cpu::refuse_value(fmt::format("candidates must be at least 1, got {}", how.candidates));
    if (std::isnan(how.threshold)) cpu::refuse_value("threshold must be a number, got NaN");
}

/// A list of at most k hits, filled up with what stands for nothing.
void write_list(const std::vector<core::Hit>& hits, std::int64_t k, float* scores, std::int64_t* documents) {
    for (std::int64_t j = 0; j < k; ++j) {
        const bool there = j < static_cast<std::int64_t>(hits.size());
        scores[j] = there ? static_cast<float>(hits[static_cast<std::size_t>(j)].score) : minus_infinity;
        documents[j] = there ? hits[static_cast<std::size_t>(j)].document : -1;
    }
}

}  // namespace

void plaid_search(const TokenSet& q, const PlaidIndexView& index, std::int64_t k, const PlaidSearchOptions& how,
                  const Options& options, const TensorView& scores, const TensorView& documents) {
    const core::StandardFloatMode mode;
    check_options(k, how, options);
    const PlaidSearch search(q, index, how, options);
    const std::int64_t kept = std::min(k, search.documents());
    const std::int64_t shape[] = {search.queries(), kept};
    auto* best = static_cast<float*>(core::checked_output(scores, DType::f32, shape, "scores"));
    auto* numbers = static_cast<std::int64_t*>(core::checked_output(documents, DType::i64, shape, "index"));
    const core::NamedView written[] = {{"scores", scores}, {"index", documents}};
    ScoreRequest read;
    read.q = q;
    core::check_disjoint(written, read);
    if (kept == 0) return;
    const int threads = core::thread_count(options.threads);
    // Many queries: one a thread. Few: threads share the work of each.
    const bool one_each = search.queries() >= threads;
    const auto run = [&](std::int64_t i) {
        const core::StandardFloatMode here;
        write_list(search.best(i, kept, one_each ? 1 : threads), kept, best + i * kept, numbers + i * kept);
    };
    if (one_each) return core::parallel_for(threads, search.queries(), run);
    for (std::int64_t i = 0; i < search.queries(); ++i) run(i);
}

}  // namespace rowmax
