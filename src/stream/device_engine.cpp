// The search on devices: blocks of documents go to them in turn, and each keeps lists of its own, which are joined when
// somebody looks. What is done is so always a beginning of the documents, as on the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "stream/blocks.hpp"
#include "stream/device_plan.hpp"
#include "stream/engine.hpp"
#include "stream/lane.hpp"

namespace rowmax::stream {

namespace {

RowBytes row_bytes_of(const io::TokenSource& documents) {
    return {documents.dim() * static_cast<std::int64_t>(size_of(documents.dtype())), documents.beside_bytes()};
}

class DeviceEngine final : public Engine {
  public:
    explicit DeviceEngine(SearchState& state)
        : state_(state),
          backend_(state.options.backend != nullptr ? *state.options.backend : device_backend()),
          plan_(plan_device(needs_of(state), state.options.memory)),
          kernel_(choose_kernel()) {}

    void step() override;
    void settle() override {
        for (const auto& lane : lanes_) lane->collect(state_.best);
    }
    [[nodiscard]] bool takes(const SearchPosition& position) const override { return position.queries == 0; }
    [[nodiscard]] std::string kernel() const override { return kernel_; }

  private:
    static DeviceNeeds needs_of(const SearchState& state);
    [[nodiscard]] std::string choose_kernel() const;
    void open_lanes();
    [[nodiscard]] std::int64_t block_end(const io::TokenSource& documents, std::int64_t item) const;

    SearchState& state_;
    const DeviceBackend& backend_;
    DevicePlan plan_;
    std::string kernel_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::size_t turn_ = 0;
};

DeviceNeeds DeviceEngine::needs_of(const SearchState& state) {
    DeviceNeeds needs;
    needs.query_count = state.query_count();
    needs.query_length = state.queries.max_length();
    needs.dim = state.queries.dim();
    needs.k = state.best.k();
    needs.query_row = needs.dim * static_cast<std::int64_t>(size_of(state.query_dtype()));
    needs.lanes = static_cast<std::int64_t>(state.options.devices.size());
    needs.held = state.options.held;
    needs.block_documents = state.options.block_documents;
    needs.document_count = state.document_count();
    for (const io::TokenSource& corpus : state.corpora) {
        needs.token_count += corpus.token_count();
        needs.longest = std::max(needs.longest, corpus.max_length());
        const RowBytes row = row_bytes_of(corpus);
        needs.row = {std::max(needs.row.token, row.token), std::max(needs.row.beside, row.beside)};
        needs.copied = needs.copied || copies_blocks(corpus);
    }
    return needs;
}

/// Something of the type of a view that belongs to tokens, for as many of them; nothing of none.
TensorView beside_tokens(const void* data, const TensorView& like, std::int64_t tokens) {
    return like.given() ? TensorView(data, like.dtype, {tokens}) : TensorView();
}

// Of the form in which tokens come to the device; what lies there is not looked at.
std::string DeviceEngine::choose_kernel() const {
    if (state_.query_count() == 0 || state_.document_count() == 0) return {};
    alignas(256) static constexpr std::byte somewhere[1]{};
    const auto packed = [&](DType dtype, std::int64_t items, std::int64_t length, std::int64_t dim) {
        TokenSet set;
        set.tokens = TensorView(somewhere, dtype, {items * length, dim});
        set.cu_seqlens = TensorView(somewhere, DType::i64, {items + 1});
        set.max_seqlen = length;
        return set;
    };
    const io::TokenSource& documents = state_.corpora[state_.place(0).corpus];
    const io::TokenBlock first = documents.block(0, 1);
    ScoreRequest request;
    request.q = packed(state_.query_dtype(), state_.query_count(), state_.queries.max_length(), state_.queries.dim());
    request.d = packed(documents.dtype(), 1, 1, documents.dim());
    request.d.scale = beside_tokens(somewhere, first.set.scale, 1);
    request.d.codes = beside_tokens(somewhere, first.set.codes, 1);
    if (request.d.scale.given()) request.q.scale = beside_tokens(somewhere, first.set.scale, request.q.tokens.shape[0]);
    ResidualTables tables;
    if (first.set.residual != nullptr) {
        tables = *first.set.residual;
        for (TensorView* table : {&tables.centroids, &tables.bucket_weights}) {
            if (table->given()) table->data = const_cast<std::byte*>(somewhere);
        }
        request.d.residual = &tables;
    }
    request.options = state_.options.score;
    std::string_view kernel;
    for (const int ordinal : state_.options.devices) {
        request.options.device = {Device::Kind::cuda, ordinal};
        try {
            kernel = backend_.choose(core::make_problem(request).params, request.options.kernel).name;
        } catch (const Error& error) {
            throw Error(error.code(), fmt::format("cuda:{}: {}", ordinal, error.what()));
        }
    }
    return std::string(kernel);
}

void DeviceEngine::open_lanes() {
    for (const int ordinal : state_.options.devices)
        lanes_.push_back(std::make_unique<Lane>(state_, backend_, plan_, ordinal));
}

std::int64_t DeviceEngine::block_end(const io::TokenSource& documents, std::int64_t item) const {
    const RowBytes row = row_bytes_of(documents);
    const std::int64_t last = std::min(documents.count(), item + plan_.documents);
    std::int64_t end = item + 1;
    for (std::int64_t tokens = documents.length(item); end < last; ++end) {
        tokens += documents.length(end);
        if (tokens > plan_.tokens || block_layout(end + 1 - item, tokens, row).bytes > plan_.block_bytes) break;
    }
    return end;
}

void DeviceEngine::step() {
    if (lanes_.empty()) open_lanes();
    const std::int64_t first = state_.position.first;
    const SearchState::Place at = state_.place(first);
    const io::TokenSource& corpus = state_.corpora[at.corpus];
    const std::int64_t end = block_end(corpus, at.item);
    const io::TokenBlock block = corpus.block(at.item, end);
    Lane& lane = *lanes_[turn_];
    turn_ = (turn_ + 1) % lanes_.size();
    if (lane.room() < end - at.item) lane.collect(state_.best);
    lane.add(block.set, first);
    const std::int64_t done = first + end - at.item;
    state_.position = {done, done, 0};
}

}  // namespace

std::unique_ptr<Engine> device_engine(SearchState& state) {
    return std::make_unique<DeviceEngine>(state);
}

}  // namespace rowmax::stream
