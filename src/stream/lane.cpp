#include "stream/lane.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/parallel.hpp"
#include "core/views.hpp"
#include "stream/coarse_queries.hpp"

namespace rowmax::stream {

Lane::Lane(const SearchState& state, const DeviceBackend& backend, const DevicePlan& plan, int ordinal)
    : state_(state),
      backend_(backend),
      runtime_(*backend.runtime),
      plan_(plan),
      ordinal_(ordinal),
      threads_(core::thread_count(state.options.score.threads)) {
    runtime_.wake(ordinal);
    take_memory();
    bring_queries();
}

Lane::~Lane() = default;

void Lane::take_memory() {
    const auto queries = static_cast<std::size_t>(state_.query_count());
    const auto hits = queries * static_cast<std::size_t>(state_.best.k());
    for (Slot& slot : slots_) {
        slot.pinned = pinned_memory(runtime_, ordinal_, plan_.block_bytes);
        slot.device = device_memory(runtime_, ordinal_, plan_.block_bytes);
        slot.copied = event_on(runtime_, ordinal_);
        slot.scored = event_on(runtime_, ordinal_);
    }
    const auto chunk = static_cast<std::size_t>(plan_.chunk_documents);
    scores_ = device_memory(runtime_, ordinal_, queries * chunk * sizeof(float));
    lists_ = device_memory(runtime_, ordinal_, backend_.topk->lists_bytes(state_.query_count(), state_.best.k()));
    best_ = device_memory(runtime_, ordinal_, hits * sizeof(float));
    index_ = device_memory(runtime_, ordinal_, hits * sizeof(std::int64_t));
    done_ = event_on(runtime_, ordinal_);
    copies_ = stream_on(runtime_, ordinal_);
    scoring_ = stream_on(runtime_, ordinal_);
}

void Lane::finish(const Handle& stream) {
    runtime_.record(place(stream), done_.get());
    runtime_.finish(done_.get());
}

// As much at a time as a pinned block holds.
template <class Write>
void Lane::bring_rows(std::int64_t rows, std::int64_t each, std::byte* to, Write write) {
    const std::int64_t most = static_cast<std::int64_t>(plan_.block_bytes) / each;
    for (std::int64_t first = 0; first < rows; first += most) {
        const std::int64_t last = std::min(first + most, rows);
        Slot& slot = slots_[turn_];
        turn_ = 1 - turn_;
        runtime_.finish(slot.copied.get());
        write(first, last, slot.pinned.bytes());
        runtime_.copy(place(copies_), to + first * each, slot.pinned.get(),
                      static_cast<std::size_t>((last - first) * each));
        runtime_.record(place(copies_), slot.copied.get());
    }
}

/// To rows `first` and following ones of the device.
void Lane::bring_query_rows(const Packing& packing, std::int64_t first) {
    const RowBytes& row = packing.row_bytes();
    bring_rows(packing.rows(), row.token, query_tokens_.bytes() + first * row.token,
               [&](std::int64_t begin, std::int64_t end, std::byte* to) { packing.write(begin, end, to, threads_); });
    if (row.beside == 0) return;
    bring_rows(packing.rows(), row.beside, query_scale_.bytes() + first * row.beside,
               [&](std::int64_t begin, std::int64_t end, std::byte* to) { packing.write_beside(begin, end, to); });
}

void Lane::bring_queries() {
    const io::TokenSource& source = state_.queries;
    const std::int64_t count = source.count();
    const std::int64_t tokens = source.token_count();
    const DType dtype = state_.query_dtype();
    const auto row_bytes = static_cast<std::size_t>(source.dim()) * size_of(dtype);
    query_tokens_ = device_memory(runtime_, ordinal_, static_cast<std::size_t>(tokens) * row_bytes);
    query_scale_ = device_memory(runtime_, ordinal_, static_cast<std::size_t>(tokens) * sizeof(float));
    query_starts_ = device_memory(runtime_, ordinal_, static_cast<std::size_t>(count + 1) * sizeof(std::int64_t));
    std::vector<std::int64_t> starts{0};
    std::vector<std::uint8_t> mask;
    bool scaled = false;
    for (std::int64_t first = 0; first < count;) {
        const std::int64_t last = source.block_end(first, static_cast<std::int64_t>(plan_.block_bytes));
        const io::TokenBlock block = source.block(first, last);
        const CoarseQueries coarse(block.set, state_.options.form.value_or(Coarse::bits), threads_);
        const Packing packing(coarse.set(), Hidden::kept);
        scaled = packing.row_bytes().beside > 0;
        bring_query_rows(packing, starts.back());
        const std::int64_t base = starts.back();
        for (std::int64_t i = 1; i <= packing.items(); ++i)
            starts.push_back(base + packing.starts()[static_cast<std::size_t>(i)]);
        mask.insert(mask.end(), packing.mask().begin(), packing.mask().end());
        first = last;
    }
    runtime_.copy(place(copies_), query_starts_.get(), starts.data(), starts.size() * sizeof(std::int64_t));
    queries_.tokens = TensorView(query_tokens_.get(), dtype, {tokens, source.dim()});
    queries_.cu_seqlens = TensorView(query_starts_.get(), DType::i64, {count + 1});
    queries_.max_seqlen = source.max_length();
    if (scaled) queries_.scale = TensorView(query_scale_.get(), DType::f32, {tokens});
    if (!mask.empty()) {  // masks are of items of one length
        query_mask_ = device_memory(runtime_, ordinal_, mask.size());
        runtime_.copy(place(copies_), query_mask_.get(), mask.data(), mask.size());
        const std::int64_t length = tokens / count;
        queries_ = {};
        queries_.tokens = TensorView(query_tokens_.get(), dtype, {count, length, source.dim()});
        queries_.mask = TensorView(query_mask_.get(), DType::u8, {count, length});
        if (scaled) queries_.scale = TensorView(query_scale_.get(), DType::f32, {count, length});
    }
    finish(copies_);
}

TensorView Lane::bring_table(Handle& memory, const TensorView& host) {
    if (!host.given()) return host;
    core::Copies copies;
    const TensorView rows = host.contiguous() ? host : core::contiguous_copy(copies, host);
    const std::size_t bytes = static_cast<std::size_t>(host.numel()) * size_of(host.dtype);
    memory = device_memory(runtime_, ordinal_, bytes);
    runtime_.copy(place(copies_), memory.get(), rows.data, bytes);
    finish(copies_);
    return {memory.get(), host.dtype,
            std::span<const std::int64_t>(host.shape.data(), static_cast<std::size_t>(host.ndim))};
}

void Lane::bring_tables(const ResidualTables& host) {
    if (tables_) return;
    tables_ = host;
    tables_->centroids = bring_table(centroids_, host.centroids);
    tables_->bucket_weights = bring_table(weights_, host.bucket_weights);
}

void Lane::fill(Slot& slot, const Packing& packing, const BlockLayout& layout) {
    std::byte* to = slot.pinned.bytes();
    std::memcpy(to, packing.starts().data(), packing.starts().size() * sizeof(std::int64_t));
    packing.write(0, packing.rows(), to + layout.tokens, threads_);
    packing.write_beside(0, packing.rows(), to + layout.beside);
}

void Lane::add(const TokenSet& documents, std::int64_t first) {
    if (documents.residual != nullptr) bring_tables(*documents.residual);
    const Packing packing(documents, Hidden::left_out);
    const BlockLayout layout = block_layout(packing.items(), packing.rows(), packing.row_bytes());
    Slot& slot = slots_[turn_];
    turn_ = 1 - turn_;
    runtime_.finish(slot.copied.get());
    fill(slot, packing, layout);
    numbering_.push_back({seen_, first});
    runtime_.wait(place(copies_), slot.scored.get());
    runtime_.copy(place(copies_), slot.device.get(), slot.pinned.get(), layout.bytes);
    runtime_.record(place(copies_), slot.copied.get());
    runtime_.wait(place(scoring_), slot.copied.get());
    score_block(slot, packing, documents, layout);
    runtime_.record(place(scoring_), slot.scored.get());
}

void Lane::score_block(const Slot& slot, const Packing& packing, const TokenSet& documents, const BlockLayout& layout) {
    const TensorView& host = documents.tokens;
    const std::int64_t width = host.shape[static_cast<std::size_t>(host.ndim) - 1];
    const std::byte* beside = slot.device.bytes() + layout.beside;
    ScoreRequest request;
    request.q = queries_;
    request.options = state_.options.score;
    request.options.device = {Device::Kind::cuda, ordinal_, scoring_.get(), &scratch, this};
    request.d.tokens = TensorView(slot.device.bytes() + layout.tokens, host.dtype, {packing.rows(), width});
    if (documents.scale.given()) request.d.scale = TensorView(beside, DType::f32, {packing.rows()});
    if (documents.codes.given()) request.d.codes = TensorView(beside, documents.codes.dtype, {packing.rows()});
    if (documents.residual != nullptr) request.d.residual = &*tables_;
    request.d.max_seqlen = packing.longest();
    const auto* starts = reinterpret_cast<const std::int64_t*>(slot.device.get());
    for (std::int64_t at = 0; at < packing.items(); at += plan_.chunk_documents) {
        const std::int64_t count = std::min(plan_.chunk_documents, packing.items() - at);
        request.d.cu_seqlens = TensorView(starts + at, DType::i64, {count + 1});
        ScoreOutputs outputs;
        outputs.scores = TensorView(scores_.get(), DType::f32, {state_.query_count(), count});
        backend_.score(request, outputs);
        merge(count, nullptr, nullptr);
    }
}

void Lane::merge(std::int64_t documents, float* best, std::int64_t* index) {
    core::TopKChunk chunk;
    chunk.scores = static_cast<const float*>(scores_.get());
    chunk.lists = lists_.get();
    chunk.queries = state_.query_count();
    chunk.k = state_.best.k();
    chunk.number = chunks_++;
    chunk.first = seen_;
    chunk.documents = documents;
    chunk.best = best;
    chunk.index = index;
    backend_.topk->merge(place(scoring_), chunk);
    seen_ += documents;
}

std::int64_t Lane::global_number(std::int64_t local) const {
    const auto after = [](std::int64_t number, const Numbering& from) { return number < from.local; };
    const Numbering& from = *(std::upper_bound(numbering_.begin(), numbering_.end(), local, after) - 1);
    return from.global + local - from.local;
}

void Lane::collect(core::TopK& best) {
    if (seen_ == 0) return;
    const std::int64_t kept = std::min(best.k(), seen_);
    const auto size = static_cast<std::size_t>(best.queries() * kept);
    std::vector<float> scores(size);
    std::vector<std::int64_t> index(size);
    // A chunk of no documents: the lists as they are, in order.
    merge(0, static_cast<float*>(best_.get()), static_cast<std::int64_t*>(index_.get()));
    runtime_.copy(place(scoring_), scores.data(), best_.get(), size * sizeof(float));
    runtime_.copy(place(scoring_), index.data(), index_.get(), size * sizeof(std::int64_t));
    finish(scoring_);
    for (std::size_t i = 0; i < size; ++i) {
        const auto query = static_cast<std::int64_t>(i) / kept;
        best.push(query, static_cast<double>(scores[i]), global_number(index[i]));
    }
    seen_ = 0;
    chunks_ = 0;
    numbering_.clear();
}

// Work of one stream, one call after the other: they may all have the same memory.
void* Lane::scratch(void* lane, std::size_t bytes) {
    Lane& self = *static_cast<Lane*>(lane);
    if (bytes > self.scratch_bytes_) {
        self.finish(self.scoring_);
        self.scratch_ = {};
        self.scratch_ = device_memory(self.runtime_, self.ordinal_, bytes);
        self.scratch_bytes_ = bytes;
    }
    return self.scratch_.get();
}

}  // namespace rowmax::stream
