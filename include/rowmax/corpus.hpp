// Corpus: documents packed into one memory-mapped file, tokens [T, d] + cu_seqlens [N + 1] + ids, ready to be scored in
// place. The file format is described byte by byte in docs/formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rowmax/error.hpp"
#include "rowmax/export.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax {

/// Forms of the tokens for a coarse scan (rowmax/compressed.hpp), which a corpus may hold beside them.
enum class Coarse {
    int8,  ///< codes and a scale a token
    fp8,   ///< codes and a scale a token
    bits,  ///< signs, in the little order
};
/// "int8", "fp8", "bits"; and back, where another name is an Error(invalid_value).
ROWMAX_API std::string_view name_of(Coarse form) noexcept;
ROWMAX_API Coarse coarse_from_name(std::string_view name);

/// One named array of a corpus file: "tokens", "cu_seqlens", "ids.offsets", "ids.text", and coarse forms.
struct CorpusSection {
    std::string name;
    TensorView view;
    std::uint64_t offset = 0;  ///< bytes from the start of the file, a multiple of 64
    std::uint64_t bytes = 0;
    std::uint32_t crc32 = 0;
};

/// A corpus file opened for reading. Cheap to copy: copies share the mapping, which lives as long as one of them.
///
/// Opening reads one page, whatever the size: the header, its checksum, and that every section lies inside the
/// file. The contents are looked at by verify(), or when they are used.
class ROWMAX_API Corpus {
  public:
    /// Throws Error(io) when the file cannot be read, Error(data) naming the field when it is no corpus.
    static Corpus open(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const noexcept;
    [[nodiscard]] std::uint64_t file_bytes() const noexcept;
    [[nodiscard]] std::int64_t count() const noexcept;        ///< documents
    [[nodiscard]] std::int64_t token_count() const noexcept;  ///< T, over all documents
    [[nodiscard]] std::int64_t max_length() const noexcept;   ///< tokens of the longest document
    [[nodiscard]] std::int64_t dim() const noexcept;
    [[nodiscard]] DType dtype() const noexcept;

    [[nodiscard]] TensorView tokens() const noexcept;      ///< [T, d]
    [[nodiscard]] TensorView cu_seqlens() const noexcept;  ///< [N + 1] int64
    /// Tokens and offsets as one side of a ScoreRequest.
    [[nodiscard]] TokenSet documents() const;
    /// The coarse forms that the file holds, in the order of the enumeration.
    [[nodiscard]] std::vector<Coarse> coarse_forms() const;
    /// The documents in a coarse form: int8 or float8 codes with their scale, to be scored with codes; or sign bits, to
    /// be scored with queries as they are (residual tables of weights -1 and 1). Throws invalid_value when the file has
    /// no such form.
    [[nodiscard]] TokenSet coarse(Coarse form) const;
    /// The tokens [L, d] of document i; throws invalid_value outside [0, count()), data when its offsets lie.
    [[nodiscard]] TensorView document(std::int64_t i) const;

    /// The id of document i: the stored one, or i in decimal when the corpus was packed without ids.
    [[nodiscard]] std::string id(std::int64_t i) const;
    [[nodiscard]] bool has_ids() const noexcept;
    /// The document with this id. Looks through the table: linear in count().
    [[nodiscard]] std::optional<std::int64_t> find(std::string_view id) const;

    [[nodiscard]] const std::vector<CorpusSection>& sections() const noexcept;
    /// The section of this name, a view that is not given() when the file has none.
    [[nodiscard]] TensorView section(std::string_view name) const noexcept;

    /// Reads the whole file: offsets rise from 0 to T and agree with max_length, ids are well formed and different,
    /// every section matches its checksum. Throws Error(data) at the first thing that is wrong. `progress` is called
    /// now and then with the bytes that are done and all there are; it may throw to stop.
    void verify(const std::function<void(std::uint64_t done, std::uint64_t total)>& progress = {}) const;

  private:
    struct Impl;
    explicit Corpus(std::shared_ptr<const Impl> impl);
    std::shared_ptr<const Impl> impl_;
};

/// Writes a corpus, document by document, in memory that does not grow with it. The file appears under its name
/// when commit() succeeds, whole; before that, and after any failure, nothing is left.
class ROWMAX_API CorpusWriter {
  public:
    /// Tokens are float16, bfloat16, float32 or float64; 1 <= dim <= 4096. Coarse forms are made of them as they come.
    CorpusWriter(const std::filesystem::path& path, DType dtype, std::int64_t dim, std::span<const Coarse> coarse = {});
    ~CorpusWriter();  ///< discards what was not committed
    CorpusWriter(CorpusWriter&&) noexcept;
    CorpusWriter& operator=(CorpusWriter&&) noexcept;

    /// One document: tokens [L, d], L >= 0. Either every document has an id or none has; an id is UTF-8 without white
    /// space and control characters, since it becomes a column of TREC runs.
    void append(const TensorView& tokens, std::string_view id = {});
    /// Many: dense [N, L, d] (tokens hidden by the mask are left out), packed, or ranges; ids empty or one for each.
    /// `progress` is called now and then with the documents that are done and all of this call; when it throws, nothing
    /// can be appended or committed any more.
    void append(const TokenSet& documents, std::span<const std::string> ids = {},
                const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

    [[nodiscard]] std::int64_t count() const noexcept;
    [[nodiscard]] std::int64_t token_count() const noexcept;

    /// Completes the file and puts it under its name. Nothing can be appended afterwards.
    void commit();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace rowmax
