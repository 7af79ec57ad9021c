// PLAID indexes: folders of .npy (fast-plaid, next-plaid) or torch files (ColBERTv2) and JSON, read by mmap.
// docs/formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/array.hpp"
#include "rowmax/compressed.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/plaid.hpp"

namespace rowmax::io {

/// Some documents of an index, one behind the other.
struct PlaidChunk {
    Array codes;                           ///< [T] int32 or int64
    Array residuals;                       ///< [T, d * nbits / 8] uint8
    std::vector<std::int64_t> cu_seqlens;  ///< [documents + 1]

    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(cu_seqlens.size()) - 1; }
};

/// The inverted file of an index: the one in its folder, or, where there is none, made of the codes.
class PlaidLists {
  public:
    [[nodiscard]] InvertedFile view() const;
    [[nodiscard]] bool stored() const { return documents_.owner != nullptr; }

  private:
    friend class PlaidIndex;
    Array documents_;     ///< mapped
    InvertedLists made_;  ///< its lengths those of both
};

/// A folder with the names of an index, even one that lacks a file of it.
bool is_plaid_index(const std::filesystem::path& folder);

class PlaidIndex {
  public:
    /// Reads everything but codes and residuals, whose shapes it checks. Throws Error(io) for what cannot be read,
    /// Error(data) naming the file for what is wrong.
    static PlaidIndex open(const std::filesystem::path& folder);

    [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
    [[nodiscard]] std::int64_t count() const { return count_; }
    [[nodiscard]] std::int64_t token_count() const { return token_count_; }
    [[nodiscard]] std::int64_t dim() const { return centroids_.view.shape[1]; }
    [[nodiscard]] std::int64_t centroid_count() const { return centroids_.view.shape[0]; }
    [[nodiscard]] int nbits() const { return nbits_; }
    [[nodiscard]] DType centroid_dtype() const { return centroids_.view.dtype; }
    [[nodiscard]] const std::vector<PlaidChunk>& chunks() const { return chunks_; }

    /// Reads the lists' lengths, and checks them; of codes, when there are no lists.
    [[nodiscard]] PlaidLists lists() const;
    /// The whole index for plaid_search(); `lists` and this must outlive it.
    [[nodiscard]] PlaidIndexView view(const PlaidLists& lists) const;
    /// Tokens are normalised after decoding, as both libraries do.
    [[nodiscard]] ResidualTables tables() const;
    /// Documents first .. last - 1 of a chunk; `tables` must outlive it, and the index too.
    [[nodiscard]] static TokenSet documents(const PlaidChunk& chunk, std::int64_t first, std::int64_t last,
                                            const ResidualTables& tables, std::vector<std::int64_t>& cu_seqlens);

  private:
    void read_chunk(const std::filesystem::path& folder, std::int64_t number);
    [[nodiscard]] std::vector<PlaidPart> parts() const;

    std::filesystem::path folder_;
    bool torch_ = false;  ///< ColBERTv2's files
    int nbits_ = 0;
    Array centroids_;
    Array weights_;
    std::vector<PlaidChunk> chunks_;
    std::int64_t count_ = 0;
    std::int64_t token_count_ = 0;
};

}  // namespace rowmax::io
