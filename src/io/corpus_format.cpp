#include "io/corpus_format.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/sides.hpp"
#include "io/checked.hpp"
#include "io/file_error.hpp"

namespace rowmax::io {

namespace {

constexpr std::uint32_t version = 1;
constexpr std::size_t crc_place = 12;

// As they lie in the file: little endian, no padding.
struct RawHeader {
    char magic[8];
    std::uint32_t version;
    std::uint32_t crc32;  // of the whole page, with these four bytes zero
    std::uint64_t file_bytes;
    std::int64_t count;
    std::int64_t token_count;
    std::int64_t max_length;
    std::uint32_t dim;
    std::uint32_t dtype;
    std::uint32_t section_count;
    std::uint32_t reserved;
};
static_assert(sizeof(RawHeader) == 64);

struct RawSection {
    char name[32];  // padded with zeros, at least one
    std::uint32_t dtype;
    std::uint32_t ndim;
    std::int64_t shape[TensorView::max_ndim];
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint32_t crc32;
    std::uint32_t reserved;
};
static_assert(sizeof(RawSection) == 96);

constexpr std::size_t max_sections = (corpus_page - sizeof(RawHeader)) / sizeof(RawSection);

// Type numbers are part of the format; the order of DType is not.
constexpr DType types_by_number[] = {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8,
                                     DType::u8,  DType::i16,  DType::i32, DType::i64, DType::boolean};

std::uint32_t number_of(DType dtype) {
    const auto* found = std::find(std::begin(types_by_number), std::end(types_by_number), dtype);
    return static_cast<std::uint32_t>(found - std::begin(types_by_number));
}

DType type_of(std::uint32_t number, const std::string& where) {
    if (number < std::size(types_by_number)) return types_by_number[number];
    bad_data(where, "dtype: number {}, known are 0 to {}", number, std::size(types_by_number) - 1);
}

template <class T>
T load_struct(std::span<const std::byte> bytes, std::size_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
}

RawSection raw_section(const CorpusSection& section) {
    RawSection raw{};
    if (section.name.size() >= sizeof(raw.name)) throw Error(ErrorCode::internal, "corpus section name: too long");
    std::copy(section.name.begin(), section.name.end(), raw.name);
    raw.dtype = number_of(section.view.dtype);
    raw.ndim = static_cast<std::uint32_t>(section.view.ndim);
    std::copy(section.view.shape.begin(), section.view.shape.end(), raw.shape);
    raw.offset = section.offset;
    raw.bytes = section.bytes;
    raw.crc32 = section.crc32;
    return raw;
}

std::uint32_t page_crc(std::span<const std::byte> page) {
    std::array<std::byte, corpus_page> copy;
    std::copy_n(page.begin(), corpus_page, copy.begin());
    std::fill_n(copy.begin() + crc_place, 4, std::byte{0});
    return crc32_of(copy);
}

void check_identity(std::span<const std::byte> file, const std::string& where) {
    if (file.size() < corpus_page) {
        bad_data(where, "corpus: {} bytes, at least {} are needed; the file is cut short", file.size(), corpus_page);
    }
    const auto raw = load_struct<RawHeader>(file, 0);
    if (std::string_view(raw.magic, sizeof(raw.magic)) != corpus_magic) bad_data(where, "corpus magic: it is missing");
    if (raw.version != version) bad_data(where, "corpus version: {}, this rowmax reads {}", raw.version, version);
    const std::uint32_t crc = page_crc(file);
    if (raw.crc32 != crc) bad_data(where, "corpus header checksum: {:08x} stored, {:08x} found", raw.crc32, crc);
    if (raw.file_bytes != file.size()) {
        bad_data(where, "corpus file size: {} bytes announced, {} found", raw.file_bytes, file.size());
    }
}

CorpusHeader decode_counts(const RawHeader& raw, const std::string& where) {
    CorpusHeader header;
    header.file_bytes = raw.file_bytes;
    header.count = raw.count;
    header.token_count = raw.token_count;
    header.max_length = raw.max_length;
    header.dim = raw.dim;
    header.dtype = type_of(raw.dtype, where);
    constexpr std::int64_t most = std::int64_t{1} << 60;
    if (raw.count < 0 || raw.count > most || raw.token_count < 0 || raw.max_length < 0 ||
        raw.max_length > raw.token_count) {
        bad_data(where, "corpus counts: {} documents, {} tokens, longest {}", raw.count, raw.token_count,
                 raw.max_length);
    }
    if (raw.dim < 1 || raw.dim > core::max_dim)
        bad_data(where, "corpus dim: {}, not in 1 to {}", raw.dim, core::max_dim);
    if (raw.section_count > max_sections) {
        bad_data(where, "corpus sections: {}, at most {} fit", raw.section_count, max_sections);
    }
    return header;
}

std::string section_name(const RawSection& raw, const std::string& where) {
    const std::string_view field(raw.name, sizeof(raw.name));
    std::string name(field.substr(0, field.find('\0')));
    const bool printed = std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7f; });
    if (name.empty() || name.size() == field.size() || !printed) {
        bad_data(where, "corpus section name: '{}'", printable(field));
    }
    return name;
}

CorpusSection decode_section(const RawSection& raw, std::span<const std::byte> file, const std::string& where) {
    CorpusSection section;
    section.name = section_name(raw, where);
    const std::string here = fmt::format("{}: section '{}'", where, section.name);
    section.offset = raw.offset;
    section.bytes = raw.bytes;
    section.crc32 = raw.crc32;
    const DType dtype = type_of(raw.dtype, here);
    if (raw.ndim > TensorView::max_ndim) bad_data(here, "ndim: {}, at most {}", raw.ndim, TensorView::max_ndim);
    const std::span<const std::int64_t> shape(raw.shape, raw.ndim);
    const auto needed = tensor_bytes(shape, size_of(dtype));
    if (!needed || *needed != raw.bytes) {
        bad_data(here, "bytes: {}, but {} [{}] does not need as many", raw.bytes, name_of(dtype),
                 fmt::join(shape, ", "));
    }
    if (raw.offset < corpus_page || raw.offset % corpus_alignment != 0 ||
        !lies_inside(raw.offset, raw.bytes, file.size())) {
        bad_data(here, "offset: {} bytes at {}, in a file of {}", raw.bytes, raw.offset, file.size());
    }
    section.view = TensorView(file.data() + raw.offset, dtype, shape);
    return section;
}

const CorpusSection* find(const CorpusHeader& header, std::string_view name) {
    for (const CorpusSection& section : header.sections) {
        if (section.name == name) return &section;
    }
    return nullptr;
}

// A required section has one type and one shape; -1 stands for any size.
void require(const CorpusHeader& header, std::string_view name, DType dtype, std::initializer_list<std::int64_t> shape,
             const std::string& where) {
    const CorpusSection* section = find(header, name);
    if (section == nullptr) bad_data(where, "corpus section '{}': it is missing", name);
    const TensorView& view = section->view;
    const bool fits = view.dtype == dtype && view.ndim == static_cast<int>(shape.size()) &&
                      std::equal(shape.begin(), shape.end(), view.shape.begin(),
                                 [](std::int64_t want, std::int64_t have) { return want < 0 || want == have; });
    if (fits) return;
    bad_data(where, "corpus section '{}': {} {} found, {} [{}] expected", name, name_of(view.dtype), view.shape_text(),
             name_of(dtype), fmt::join(shape, ", "));
}

void check_sections(const CorpusHeader& header, const std::string& where) {
    std::vector<const CorpusSection*> order;
    for (const CorpusSection& section : header.sections) {
        if (find(header, section.name) != &section) bad_data(where, "corpus section '{}': given twice", section.name);
        order.push_back(&section);
    }
    std::sort(order.begin(), order.end(), [](const CorpusSection* a, const CorpusSection* b) {
        return a->offset < b->offset || (a->offset == b->offset && a->bytes < b->bytes);
    });
    for (std::size_t i = 1; i < order.size(); ++i) {
        if (order[i - 1]->offset + order[i - 1]->bytes <= order[i]->offset) continue;
        bad_data(where, "corpus sections: '{}' and '{}' overlap", order[i - 1]->name, order[i]->name);
    }
    require(header, tokens_section, header.dtype, {header.token_count, header.dim}, where);
    require(header, cu_seqlens_section, DType::i64, {header.count + 1}, where);
    for (const CoarseSections& names : coarse_sections) {
        if (find(header, names.codes) == nullptr && (names.scale.empty() || find(header, names.scale) == nullptr))
            continue;
        require(header, names.codes, names.dtype, {header.token_count, coarse_width(names.form, header.dim)}, where);
        if (!names.scale.empty()) require(header, names.scale, DType::f32, {header.token_count}, where);
    }
    if (find(header, id_offsets_section) == nullptr && find(header, id_text_section) == nullptr) return;
    require(header, id_offsets_section, DType::i64, {header.count + 1}, where);
    require(header, id_text_section, DType::u8, {-1}, where);
}

}  // namespace

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before) {
    if (bytes.empty()) return before;  // zlib takes a null pointer for a wish to start again
    return static_cast<std::uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::vector<std::byte> encode_corpus_header(const CorpusHeader& header) {
    RawHeader raw{};
    std::copy(corpus_magic.begin(), corpus_magic.end(), raw.magic);
    raw.version = version;
    raw.file_bytes = header.file_bytes;
    raw.count = header.count;
    raw.token_count = header.token_count;
    raw.max_length = header.max_length;
    raw.dim = static_cast<std::uint32_t>(header.dim);
    raw.dtype = number_of(header.dtype);
    raw.section_count = static_cast<std::uint32_t>(header.sections.size());
    if (header.sections.size() > max_sections) throw Error(ErrorCode::internal, "corpus: too many sections");
    std::vector<std::byte> page(corpus_page);
    std::memcpy(page.data(), &raw, sizeof(raw));
    for (std::size_t i = 0; i < header.sections.size(); ++i) {
        const RawSection section = raw_section(header.sections[i]);
        std::memcpy(page.data() + sizeof(raw) + i * sizeof(section), &section, sizeof(section));
    }
    const std::uint32_t crc = page_crc(page);
    std::memcpy(page.data() + crc_place, &crc, sizeof(crc));
    return page;
}

CorpusHeader decode_corpus_header(std::span<const std::byte> file, const std::string& where) {
    check_identity(file, where);
    const auto raw = load_struct<RawHeader>(file, 0);
    CorpusHeader header = decode_counts(raw, where);
    for (std::size_t i = 0; i < raw.section_count; ++i) {
        const auto entry = load_struct<RawSection>(file, sizeof(raw) + i * sizeof(RawSection));
        header.sections.push_back(decode_section(entry, file, where));
    }
    check_sections(header, where);
    return header;
}

}  // namespace rowmax::io
