// The first page of a corpus file, byte by byte; see docs/formats.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rowmax/corpus.hpp"

namespace rowmax::io {

inline constexpr std::size_t corpus_page = 4096;
inline constexpr std::uint64_t corpus_alignment = 64;
inline constexpr std::string_view corpus_magic("ROWMAX\x1a\n", 8);  // a transfer as text breaks it
inline constexpr std::string_view tokens_section = "tokens";
inline constexpr std::string_view cu_seqlens_section = "cu_seqlens";
inline constexpr std::string_view id_offsets_section = "ids.offsets";
inline constexpr std::string_view id_text_section = "ids.text";

/// The sections of a coarse form: one of bytes a token, and for codes the scale of each.
struct CoarseSections {
    Coarse form;
    std::string_view codes;
    std::string_view scale;  ///< empty: none
    DType dtype;             ///< of the codes, as stored: float8 has no number, and is stored as its bits
};
inline constexpr CoarseSections coarse_sections[] = {{Coarse::int8, "int8.codes", "int8.scale", DType::i8},
                                                     {Coarse::fp8, "fp8.codes", "fp8.scale", DType::u8},
                                                     {Coarse::bits, "bits", "", DType::u8}};
/// Bytes of a token in a coarse form.
constexpr std::int64_t coarse_width(Coarse form, std::int64_t dim) {
    return form == Coarse::bits ? (dim + 7) / 8 : dim;
}

struct CorpusHeader {
    std::uint64_t file_bytes = 0;
    std::int64_t count = 0;
    std::int64_t token_count = 0;
    std::int64_t max_length = 0;
    std::int64_t dim = 0;
    DType dtype = DType::f32;
    std::vector<CorpusSection> sections;
};

std::vector<std::byte> encode_corpus_header(const CorpusHeader& header);

/// Reads and checks the first page of `file`: every section lies inside it, and the required ones have their shapes.
/// The views of the sections point into `file`.
CorpusHeader decode_corpus_header(std::span<const std::byte> file, const std::string& where);

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace rowmax::io
