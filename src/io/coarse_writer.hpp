// Coarse forms of tokens on their way into a corpus file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "io/corpus_format.hpp"
#include "io/output_file.hpp"

namespace rowmax::io {

/// Bytes bound for one section, with their checksum.
struct SectionStream {
    OutputFile file;
    std::uint32_t crc = 0;

    explicit SectionStream(const std::filesystem::path& path) : file(path) {}

    void write(std::span<const std::byte> bytes) {
        file.write(bytes);
        crc = crc32_of(bytes, crc);
    }
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
    void write(std::int64_t number) { write(std::as_bytes(std::span(&number, 1))); }
};

/// One form of all tokens, in nameless files beside the corpus.
class CoarseWriter {
  public:
    CoarseWriter(const std::filesystem::path& path, const CoarseSections& sections, std::int64_t dim);

    /// Tokens [L, d].
    void append(const TensorView& tokens);

    [[nodiscard]] const CoarseSections& sections() const { return *sections_; }
    [[nodiscard]] SectionStream& codes() { return codes_; }
    [[nodiscard]] SectionStream& scale() { return *scale_; }

  private:
    const CoarseSections* sections_;
    std::int64_t width_;
    SectionStream codes_;
    std::unique_ptr<SectionStream> scale_;  ///< null: the form has none
    std::vector<std::byte> code_rows_;
    std::vector<float> scales_;
};

}  // namespace rowmax::io
