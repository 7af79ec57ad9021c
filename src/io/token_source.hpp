// TokenSource: queries or documents from any input, as views that can be scored, block by block.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "io/ids.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::io {

struct LoadOptions {
    /// The name of the token array in a .npz or safetensors file. Empty: "tokens", or the only array that can be
    /// tokens.
    std::string tensor = {};
    /// "bfloat16" (or "float16") for 2-byte elements stored as integers. Empty: as the file says.
    std::string dtype = {};
    /// A file with one id per line, which replaces the ids of the input. Empty: the input's own, or numbers.
    std::filesystem::path ids = {};
    /// A compressed array larger than this is refused.
    std::uint64_t max_inflated_bytes = std::uint64_t{16} << 30;
};

/// Items first .. last - 1 as one side of a ScoreRequest. `owner` keeps the memory alive.
struct TokenBlock {
    TokenSet set;
    std::shared_ptr<const void> owner;
    std::int64_t copied_bytes = 0;  ///< allocated for this block; 0 for a view of mapped memory
};

/// What holds the tokens: one class per layout.
class TokenStore {
  public:
    virtual ~TokenStore() = default;
    [[nodiscard]] virtual std::int64_t count() const = 0;
    [[nodiscard]] virtual std::int64_t length(std::int64_t item) const = 0;  ///< padding included
    [[nodiscard]] virtual std::int64_t max_length() const = 0;
    [[nodiscard]] virtual std::int64_t token_count() const = 0;
    [[nodiscard]] virtual std::int64_t dim() const = 0;
    [[nodiscard]] virtual DType dtype() const = 0;
    [[nodiscard]] virtual TokenBlock block(std::int64_t first, std::int64_t last) const = 0;
    /// Of each token, what its scale or its centroid's number takes; 0: tokens are numbers as they are.
    [[nodiscard]] virtual std::int64_t beside_bytes() const { return 0; }
};

/// Cheap to copy. Everything is checked when it is loaded, offsets and lengths included; only the contents of a
/// folder's files are read when a block asks for them.
class TokenSource {
  public:
    TokenSource(std::shared_ptr<const TokenStore> store, Ids ids, std::string format, std::filesystem::path path);

    [[nodiscard]] std::int64_t count() const { return store_->count(); }
    [[nodiscard]] std::int64_t dim() const { return store_->dim(); }
    [[nodiscard]] DType dtype() const { return store_->dtype(); }
    [[nodiscard]] std::int64_t length(std::int64_t item) const { return store_->length(item); }
    [[nodiscard]] std::int64_t max_length() const { return store_->max_length(); }
    [[nodiscard]] std::int64_t token_count() const { return store_->token_count(); }
    [[nodiscard]] std::int64_t beside_bytes() const { return store_->beside_bytes(); }

    [[nodiscard]] std::string id(std::int64_t item) const { return ids_[item]; }
    [[nodiscard]] const Ids& ids() const { return ids_; }

    /// A view where the layout allows it; a copy of just these items for folders and for misaligned .npz members.
    [[nodiscard]] TokenBlock block(std::int64_t first, std::int64_t last) const;
    /// Where a block that starts at `first` ends if its tokens should take at most `bytes`; a block has at least one
    /// item.
    [[nodiscard]] std::int64_t block_end(std::int64_t first, std::int64_t bytes) const;
    [[nodiscard]] TokenBlock all() const { return block(0, count()); }

    /// "npy", "npz", "safetensors", "folder", "corpus", "memory".
    [[nodiscard]] const std::string& format() const { return format_; }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::shared_ptr<const TokenStore> store_;
    Ids ids_;
    std::string format_;
    std::filesystem::path path_;
};

/// Opens any input; the format is told by the content, not by the name:
/// - .npy             [L, d], one item, or [N, L, d];
/// - .npz/safetensors tokens [L, d] or [N, L, d], and beside them, under these names or "<tensor>_" + these names:
///                    mask [N, L]; lengths [N]; cu_seqlens or offsets [N + 1] (tokens are then packed, [T, d]); ids;
/// - folder           one .npy [L, d] per document, in natural order of names ("2" before "10"), ids are the stems;
/// - corpus           what CorpusWriter wrote.
TokenSource load_tokens(const std::filesystem::path& path, const LoadOptions& options = {});

/// The same face for arrays in memory, dense, packed or ranges; they must outlive it unless `owner` keeps them.
TokenSource tokens_in_memory(const TokenSet& set, Ids ids, const std::shared_ptr<const void>& owner = {});

/// "npy", "npz", "safetensors", "folder" or "corpus"; throws Error(data) when the content is none of them.
std::string detect_format(const std::filesystem::path& path);

}  // namespace rowmax::io
