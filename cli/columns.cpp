// Ranges: Unicode Standard Annex 11 (East Asian Width: W and F) and the combining blocks of the standard.
#include "cli/columns.hpp"

#include <algorithm>
#include <cstdint>

namespace rowmax::cli {

namespace {

struct Range {
    std::uint32_t first;
    std::uint32_t last;
};

constexpr Range wide[] = {
    {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff}, {0xa000, 0xa4cf},
    {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60}, {0xffe0, 0xffe6},
    {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};
constexpr Range without_width[] = {
    {0x0300, 0x036f}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f},
    {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
};

template <std::size_t N>
bool among(const Range (&ranges)[N], std::uint32_t point) {
    return std::any_of(std::begin(ranges), std::end(ranges),
                       [&](const Range& r) { return point >= r.first && point <= r.last; });
}

bool continues(char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) == 0x80;
}

// Takes one code point off the front; bytes that begin none count as one.
std::uint32_t take(std::string_view& text) {
    const auto lead = static_cast<unsigned char>(text.front());
    std::uint32_t point = lead < 0xc0 ? lead : lead < 0xe0 ? lead & 0x1fU : lead < 0xf0 ? lead & 0x0fU : lead & 0x07U;
    text.remove_prefix(1);
    for (; lead >= 0xc0 && !text.empty() && continues(text.front()); text.remove_prefix(1)) {
        point = point << 6 | (static_cast<unsigned char>(text.front()) & 0x3fU);
    }
    return point;
}

}  // namespace

std::size_t columns(std::string_view text) {
    std::size_t count = 0;
    while (!text.empty()) {
        const std::uint32_t point = take(text);
        count += among(without_width, point) ? 0 : among(wide, point) ? 2 : 1;
    }
    return count;
}

std::string padded(const std::string& text, std::size_t width) {
    return text + std::string(width - std::min(width, columns(text)), ' ');
}

}  // namespace rowmax::cli
