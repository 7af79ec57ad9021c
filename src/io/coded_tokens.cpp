#include "io/coded_tokens.hpp"

#include <string>
#include <utility>

#include "core/views.hpp"
#include "io/token_store.hpp"

namespace rowmax::io {

namespace {

/// Packed tokens, each with its scale or code.
class CodedStore final : public TokenStore {
  public:
    /// `owner` keeps the set's memory alive, its tables included.
    CodedStore(const TokenSet& set, const std::shared_ptr<const void>& owner, const std::string& where)
        : set_(set), rows_(packed_store({set.tokens, owner}, {set.cu_seqlens, owner}, where)) {}

    [[nodiscard]] std::int64_t count() const override { return rows_->count(); }
    [[nodiscard]] std::int64_t length(std::int64_t item) const override { return rows_->length(item); }
    [[nodiscard]] std::int64_t max_length() const override { return rows_->max_length(); }
    [[nodiscard]] std::int64_t token_count() const override { return rows_->token_count(); }
    [[nodiscard]] std::int64_t dim() const override { return rows_->dim(); }
    [[nodiscard]] DType dtype() const override { return rows_->dtype(); }
    [[nodiscard]] std::int64_t beside_bytes() const override {
        const TensorView& beside = set_.scale.given() ? set_.scale : set_.codes;
        return beside.given() ? static_cast<std::int64_t>(size_of(beside.dtype)) : 0;
    }

    [[nodiscard]] TokenBlock block(std::int64_t first, std::int64_t last) const override {
        TokenBlock block = rows_->block(first, last);
        const auto bytes = static_cast<const std::byte*>(block.set.tokens.data) -
                           static_cast<const std::byte*>(set_.tokens.data);  // codes of a byte are never copied
        const std::int64_t row = bytes / (set_.tokens.stride[0] * static_cast<std::int64_t>(size_of(dtype())));
        const std::int64_t end = row + block.set.tokens.shape[0];
        block.set.scale = core::rows_of(set_.scale, row, end);
        block.set.codes = core::rows_of(set_.codes, row, end);
        block.set.residual = set_.residual;
        return block;
    }

  private:
    TokenSet set_;
    std::shared_ptr<const TokenStore> rows_;
};

TokenSource source_of(const TokenSet& set, std::int64_t count, const std::shared_ptr<const void>& owner,
                      const std::filesystem::path& path) {
    return {std::make_shared<const CodedStore>(set, owner, path.string()), Ids(count), "codes", path};
}

/// A chunk of an index, and what its tables point into.
struct IndexChunk {
    std::shared_ptr<const PlaidIndex> index;
    ResidualTables tables;
    TokenSet set;

    IndexChunk(std::shared_ptr<const PlaidIndex> whole, const PlaidChunk& chunk)
        : index(std::move(whole)), tables(index->tables()) {
        set.tokens = chunk.residuals.view;
        set.codes = chunk.codes.view;
        set.cu_seqlens =
            TensorView(chunk.cu_seqlens.data(), DType::i64, {static_cast<std::int64_t>(chunk.cu_seqlens.size())});
        set.residual = &tables;
    }
    IndexChunk(const IndexChunk&) = delete;
    IndexChunk& operator=(const IndexChunk&) = delete;
};

}  // namespace

TokenSource coded_tokens(const Corpus& corpus, Coarse form) {
    const auto owner = std::make_shared<const Corpus>(corpus);
    return source_of(owner->coarse(form), owner->count(), owner, owner->path());
}

std::vector<TokenSource> coded_tokens(const std::shared_ptr<const PlaidIndex>& index) {
    std::vector<TokenSource> sources;
    for (const PlaidChunk& chunk : index->chunks()) {
        const auto owner = std::make_shared<const IndexChunk>(index, chunk);
        sources.push_back(source_of(owner->set, chunk.count(), owner, index->folder()));
    }
    return sources;
}

}  // namespace rowmax::io
