// Ids of documents and queries.
//
// An id is non-empty UTF-8 of at most 4096 bytes without ASCII white space and control characters, because it
// becomes a column of TREC runs and a field of JSON; the ids of one file differ. Items without ids are called by
// number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rowmax::io {

inline constexpr std::size_t max_id_bytes = 4096;

/// Throws Error(data) that says what is wrong with `id`; `where` names the file and the entry.
void check_id(std::string_view id, const std::string& where);

/// One id per line; a last line without a newline counts, "\r\n" is accepted.
std::vector<std::string> read_id_file(const std::filesystem::path& path);

/// A table of ids: numbers 0 .. n - 1 in decimal, strings, or text in a mapped file. Cheap to copy.
class Ids {
  public:
    Ids() = default;
    /// 0 .. count - 1.
    explicit Ids(std::int64_t count) : count_(count) {}
    /// Checks every id, and that they differ.
    Ids(std::vector<std::string> ids, const std::string& where);
    /// text[offsets[i] .. offsets[i + 1]); offsets [count + 1]. Unchecked until used.
    Ids(std::int64_t count, const std::int64_t* offsets, std::string_view text, std::string where,
        std::shared_ptr<const void> owner);

    [[nodiscard]] std::int64_t size() const noexcept { return count_; }
    [[nodiscard]] bool stored() const noexcept { return strings_ != nullptr || offsets_ != nullptr; }
    /// Throws Error(data) when the offsets of the table lie.
    [[nodiscard]] std::string operator[](std::int64_t i) const;
    [[nodiscard]] std::optional<std::int64_t> find(std::string_view id) const;
    /// Every id is well formed, and no two are equal.
    void verify() const;

  private:
    [[nodiscard]] std::string_view stored_id(std::int64_t i) const;
    std::int64_t count_ = 0;
    std::shared_ptr<const std::vector<std::string>> strings_;
    const std::int64_t* offsets_ = nullptr;
    std::string_view text_;
    std::shared_ptr<const void> owner_;  ///< of offsets_ and text_
    std::string where_;
};

}  // namespace rowmax::io
