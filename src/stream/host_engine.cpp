// The search on the CPU: a step scores one block of documents against one block of queries in one kernel call.
// Mapped corpora are scored in place.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "stream/blocks.hpp"
#include "stream/engine.hpp"
#include "stream/step_plan.hpp"

namespace rowmax::stream {

namespace {

template <class Score>
void offer(core::TopK& best, const std::byte* scores, std::int64_t queries, std::int64_t documents,
           const SearchPosition& at) {
    const auto* score = reinterpret_cast<const Score*>(scores);
    for (std::int64_t i = 0; i < queries; ++i) {
        for (std::int64_t j = 0; j < documents; ++j)
            best.push(at.queries + i, static_cast<double>(*score++), at.first + j);
    }
}

class HostEngine final : public Engine {
  public:
    explicit HostEngine(SearchState& state) : state_(state) {
        plan_memory();
        choose_kernel();
    }
    void step() override;
    [[nodiscard]] bool takes(const SearchPosition&) const override { return true; }
    [[nodiscard]] std::string kernel() const override { return kernel_; }

  private:
    void plan_memory();
    void choose_kernel();
    void load_documents();
    void load_queries(std::int64_t first, std::int64_t last);
    void score_block(std::int64_t queries);

    SearchState& state_;
    std::vector<bool> copied_;  ///< of each corpus: blocks are copies, not views
    StepPlan plan_;
    std::string kernel_;

    io::TokenBlock documents_;  ///< position.first .. last, once loaded
    std::int64_t documents_first_ = -1;
    io::TokenBlock query_block_;
    std::int64_t query_block_first_ = -1;
    std::vector<std::byte> scores_;
};

void HostEngine::plan_memory() {
    const io::TokenSource& queries = state_.queries;
    StepNeeds needs;
    needs.query_count = queries.count();
    needs.query_length = queries.max_length();
    needs.dim = queries.dim();
    needs.k = state_.best.k();
    needs.token_bytes = static_cast<std::int64_t>(size_of(queries.dtype()));
    needs.held = state_.options.held;
    needs.queries_copied = copies_blocks(queries);
    for (const io::TokenSource& corpus : state_.corpora) {
        copied_.push_back(copies_blocks(corpus));
        if (copied_.back()) needs.longest_copied = std::max(needs.longest_copied, corpus.max_length());
    }
    plan_ = plan_step(needs, state_.options.memory, state_.options.score.threads);
}

void HostEngine::choose_kernel() {
    for (const io::TokenSource& corpus : state_.corpora) {
        if (corpus.count() == 0 || state_.query_count() == 0) continue;
        const io::TokenBlock query = state_.queries.block(0, 1);
        const io::TokenBlock document = corpus.block(0, 1);
        ScoreRequest request;
        request.q = query.set;
        request.d = document.set;
        request.options = state_.options.score;
        for (const KernelInfo& info : explain_dispatch(request)) {
            if (info.chosen) kernel_ = info.name;
        }
        return;
    }
}

void HostEngine::load_documents() {
    const SearchPosition& position = state_.position;
    if (documents_first_ == position.first) return;
    documents_ = {};  // the old block goes before the new one comes
    documents_first_ = position.first;
    const SearchState::Place at = state_.place(position.first);
    documents_ = state_.corpora[at.corpus].block(at.item, at.item + position.last - position.first);
}

void HostEngine::load_queries(std::int64_t first, std::int64_t last) {
    if (query_block_first_ == first) return;
    query_block_ = {};
    query_block_ = state_.queries.block(first, last);
    query_block_first_ = first;
}

void HostEngine::score_block(std::int64_t queries) {
    const SearchPosition& position = state_.position;
    const std::int64_t documents = position.last - position.first;
    ScoreRequest request;
    request.q = query_block_.set;
    request.d = documents_.set;
    request.options = state_.options.score;
    const ResultShape shape = result_shape(request);
    scores_.resize(static_cast<std::size_t>(queries * documents) * size_of(shape.dtype));
    ScoreOutputs outputs;
    outputs.scores = TensorView(scores_.data(), shape.dtype, shape.scores);
    score(request, outputs);
    const auto offer_all = shape.dtype == DType::f64 ? offer<double> : offer<float>;
    offer_all(state_.best, scores_.data(), queries, documents, position);
}

void HostEngine::step() {
    SearchPosition& position = state_.position;
    const SearchState::Place at = state_.place(position.first);
    if (position.last == position.first) {
        position.last =
            state_.starts[at.corpus] + block_end(state_.corpora[at.corpus], at.item, copied_[at.corpus], plan_);
    }
    load_documents();
    const std::int64_t last = std::min(position.queries + plan_.queries, state_.query_count());
    load_queries(position.queries, last);
    score_block(last - position.queries);
    position.queries = last;
    if (last == state_.query_count()) position = {position.last, position.last, 0};
}

}  // namespace

std::unique_ptr<Engine> host_engine(SearchState& state) {
    return std::make_unique<HostEngine>(state);
}

}  // namespace rowmax::stream
