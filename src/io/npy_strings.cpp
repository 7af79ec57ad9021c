// Text arrays: numpy keeps strings in fixed cells, padded with zeros.
#include <string>

#include "io/checked.hpp"
#include "io/file_error.hpp"
#include "io/npy.hpp"
#include "io/npy_types.hpp"

namespace rowmax::io {

namespace {

void append_utf8(std::string& out, std::uint32_t c, const std::string& where) {
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) bad_data(where, "text: {:#x} is no Unicode character", c);
    const auto put = [&](std::uint32_t bits) { out += static_cast<char>(bits); };
    if (c < 0x80) return put(c);
    if (c < 0x800) {
        put(0xc0 | (c >> 6));
    } else if (c < 0x10000) {
        put(0xe0 | (c >> 12));
        put(0x80 | ((c >> 6) & 0x3f));
    } else {
        put(0xf0 | (c >> 18));
        put(0x80 | ((c >> 12) & 0x3f));
        put(0x80 | ((c >> 6) & 0x3f));
    }
    put(0x80 | (c & 0x3f));
}

std::string unicode_cell(std::span<const std::byte> cell, const std::string& where) {
    std::size_t length = cell.size() / 4;
    while (length > 0 && load_at<std::uint32_t>(cell, 4 * (length - 1)) == 0) --length;
    std::string text;
    for (std::size_t i = 0; i < length; ++i) append_utf8(text, load_at<std::uint32_t>(cell, 4 * i), where);
    return text;
}

std::string byte_cell(std::span<const std::byte> cell) {
    const std::string_view text(reinterpret_cast<const char*>(cell.data()), cell.size());
    return std::string(text.substr(0, text.find_last_not_of('\0') + 1));
}

std::string cell_text(std::span<const std::byte> cell, const NpyType& type, const std::string& where) {
    if (type.kind == 'U') return unicode_cell(cell, where);
    if (type.kind == 'S') return byte_cell(cell);
    return std::to_string(type.size == 8 ? load_at<std::int64_t>(cell, 0) : load_at<std::int32_t>(cell, 0));
}

}  // namespace

std::vector<std::string> npy_strings(std::span<const std::byte> file, const std::string& where) {
    const NpyHeader header = parse_npy_header(file, where);
    const NpyType type = parse_npy_descr(header.descr);
    const bool text = type.kind == 'U' || type.kind == 'S';
    const bool integer = type.kind == 'i' && (type.size == 4 || type.size == 8);
    if (header.shape.size() != 1 || header.item_size == 0 || type.order == '>' || !(text || integer)) {
        bad_data(where, "expected a list of text or integers, got '{}' [{}]", printable(header.descr),
                 fmt::join(header.shape, ", "));
    }
    std::vector<std::string> strings;
    std::span<const std::byte> cells = file.subspan(header.data_offset, header.data_bytes);
    for (; !cells.empty(); cells = cells.subspan(header.item_size)) {
        strings.push_back(cell_text(cells.first(header.item_size), type, where));
    }
    return strings;
}

}  // namespace rowmax::io
