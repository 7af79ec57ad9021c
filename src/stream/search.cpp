#include "stream/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stream/blocks.hpp"

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

template <class Score>
void offer(core::TopK& best, const std::byte* scores, std::int64_t queries, std::int64_t documents,
           const SearchPosition& at) {
    const auto* score = reinterpret_cast<const Score*>(scores);
    for (std::int64_t i = 0; i < queries; ++i) {
        for (std::int64_t j = 0; j < documents; ++j)
            best.push(at.queries + i, static_cast<double>(*score++), at.first + j);
    }
}

}  // namespace

Search::Search(io::TokenSource queries, std::vector<io::TokenSource> corpora, const SearchOptions& options)
    : queries_(std::move(queries)),
      corpora_(std::move(corpora)),
      options_(options),
      starts_(first_documents(corpora_)),
      best_(queries_.count(), kept(options.k, starts_.back())) {
    check_inputs();
    plan_memory();
    choose_kernel();
    if (query_count() == 0) position_ = {document_count(), document_count(), 0};
}

void Search::check_inputs() const {
    for (const io::TokenSource& corpus : corpora_) {
        if (corpus.dtype() != queries_.dtype()) {
            throw Error(ErrorCode::invalid_type,
                        fmt::format("queries {} are {}, corpus {} is {}: both must have the same type",
                                    queries_.path().string(), name_of(queries_.dtype()), corpus.path().string(),
                                    name_of(corpus.dtype())));
        }
        if (corpus.dim() != queries_.dim()) {
            throw Error(ErrorCode::invalid_value,
                        fmt::format("queries {} have d = {}, corpus {} has d = {}", queries_.path().string(),
                                    queries_.dim(), corpus.path().string(), corpus.dim()));
        }
    }
}

void Search::plan_memory() {
    StepNeeds needs;
    needs.query_count = query_count();
    needs.query_length = queries_.max_length();
    needs.dim = queries_.dim();
    needs.k = best_.k();
    needs.token_bytes = static_cast<std::int64_t>(size_of(queries_.dtype()));
    needs.held = options_.held;
    needs.queries_copied = copies_blocks(queries_);
    for (const io::TokenSource& corpus : corpora_) {
        copied_.push_back(copies_blocks(corpus));
        if (copied_.back()) needs.longest_copied = std::max(needs.longest_copied, corpus.max_length());
    }
    plan_ = plan_step(needs, options_.memory, options_.score.threads);
}

void Search::choose_kernel() {
    for (const io::TokenSource& corpus : corpora_) {
        if (corpus.count() == 0 || query_count() == 0) continue;
        const io::TokenBlock query = queries_.block(0, 1);
        const io::TokenBlock document = corpus.block(0, 1);
        ScoreRequest request;
        request.q = query.set;
        request.d = document.set;
        request.options = options_.score;
        for (const KernelInfo& info : explain_dispatch(request)) {
            if (info.chosen) kernel_ = info.name;
        }
        return;
    }
}

DType Search::score_dtype() const {
    return queries_.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

Search::Place Search::place(std::int64_t document) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), document);
    const auto corpus = static_cast<std::size_t>(after - starts_.begin() - 1);
    return {corpus, document - starts_[corpus]};
}

std::string Search::document_id(std::int64_t document) const {
    const Place at = place(document);
    // Items without ids are called by number, and of several corpora the numbers go on.
    return corpora_[at.corpus].ids().stored() ? corpora_[at.corpus].id(at.item) : std::to_string(document);
}

std::int64_t Search::pairs_done() const {
    return position_.first * query_count() + (position_.last - position_.first) * position_.queries;
}

void Search::load_documents() {
    if (documents_first_ == position_.first) return;
    documents_ = {};  // the old block goes before the new one comes
    documents_first_ = position_.first;
    const Place at = place(position_.first);
    documents_ = corpora_[at.corpus].block(at.item, at.item + position_.last - position_.first);
}

void Search::load_queries(std::int64_t first, std::int64_t last) {
    if (query_block_first_ == first) return;
    query_block_ = {};
    query_block_ = queries_.block(first, last);
    query_block_first_ = first;
}

void Search::score_block(std::int64_t queries) {
    const std::int64_t documents = position_.last - position_.first;
    ScoreRequest request;
    request.q = query_block_.set;
    request.d = documents_.set;
    request.options = options_.score;
    scores_.resize(static_cast<std::size_t>(queries * documents) * size_of(score_dtype()));
    ScoreOutputs outputs;
    outputs.scores = TensorView(scores_.data(), score_dtype(), result_shape(request).scores);
    score(request, outputs);
    const auto offer_all = score_dtype() == DType::f64 ? offer<double> : offer<float>;
    offer_all(best_, scores_.data(), queries, documents, position_);
}

bool Search::step() {
    if (finished()) return false;
    const Place at = place(position_.first);
    if (position_.last == position_.first)
        position_.last = starts_[at.corpus] + block_end(corpora_[at.corpus], at.item, copied_[at.corpus], plan_);
    load_documents();
    const std::int64_t last = std::min(position_.queries + plan_.queries, query_count());
    load_queries(position_.queries, last);
    score_block(last - position_.queries);
    position_.queries = last;
    if (last == query_count()) position_ = {position_.last, position_.last, 0};
    return true;
}

void Search::resume(const SearchPosition& position, const std::vector<std::vector<core::Hit>>& ranked) {
    best_ = core::TopK(query_count(), best_.k());
    for (std::size_t i = 0; i < ranked.size(); ++i) {
        for (const core::Hit& hit : ranked[i]) best_.push(static_cast<std::int64_t>(i), hit.score, hit.document);
    }
    position_ = position;
    documents_first_ = -1;
}

}  // namespace rowmax::stream
