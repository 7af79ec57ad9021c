#include "io/ids.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "io/file_error.hpp"
#include "io/text_file.hpp"

namespace rowmax::io {

namespace {

// The length of the UTF-8 character at the front of `text`, 0 if there is none. Overlong forms, surrogates and what
// lies beyond U+10FFFF are none.
std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return 1;
    const std::size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0U) != 0x80) return 0;
    }
    const unsigned char second = byte(1);
    const bool wrong = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) ||
                       (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90);
    return wrong ? 0 : length;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

}  // namespace

void check_id(std::string_view id, const std::string& where) {
    if (id.empty()) bad_data(where, "the id is empty");
    if (id.size() > max_id_bytes) bad_data(where, "the id has {} bytes, at most {} fit", id.size(), max_id_bytes);
    for (const char c : id) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte > 0x20 && byte != 0x7f) continue;
        bad_data(where, "the id '{}' contains white space or a control character ({:#04x})", printable(id), byte);
    }
    if (!is_utf8(id)) bad_data(where, "the id '{}' is not UTF-8", printable(id));
}

std::vector<std::string> read_id_file(const std::filesystem::path& path) {
    const std::string text = read_text(path);
    std::string_view rest = text;
    std::vector<std::string> ids;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        std::string_view line = rest.substr(0, end);
        if (line.ends_with('\r')) line.remove_suffix(1);
        check_id(line, fmt::format("{}:{}", path.string(), ids.size() + 1));
        ids.emplace_back(line);
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return ids;
}

Ids::Ids(std::vector<std::string> ids, const std::string& where)
    : count_(static_cast<std::int64_t>(ids.size())),
      strings_(std::make_shared<const std::vector<std::string>>(std::move(ids))),
      where_(where) {
    verify();
}

Ids::Ids(std::int64_t count, const std::int64_t* offsets, std::string_view text, std::string where,
         std::shared_ptr<const void> owner)
    : count_(count), offsets_(offsets), text_(text), owner_(std::move(owner)), where_(std::move(where)) {}

std::string_view Ids::stored_id(std::int64_t i) const {
    if (strings_ != nullptr) return (*strings_)[static_cast<std::size_t>(i)];
    const std::int64_t first = offsets_[i];
    const std::int64_t last = offsets_[i + 1];
    const auto size = static_cast<std::int64_t>(text_.size());
    if (first < 0 || last < first || last > size) {
        bad_data(where_, "ids.offsets: id {} is [{}, {}) of {} bytes", i, first, last, size);
    }
    return text_.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
}

std::string Ids::operator[](std::int64_t i) const {
    if (i < 0 || i >= count_) {
        throw Error(ErrorCode::invalid_value, fmt::format("item {}: there are {} items, from 0", i, count_));
    }
    return stored() ? std::string(stored_id(i)) : std::to_string(i);
}

std::optional<std::int64_t> Ids::find(std::string_view id) const {
    if (stored()) {
        for (std::int64_t i = 0; i < count_; ++i) {
            if (stored_id(i) == id) return i;
        }
        return std::nullopt;
    }
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
    const bool canonical = error == std::errc() && number >= 0 && number < count_ && std::to_string(number) == id;
    return canonical ? std::optional(number) : std::nullopt;
}

void Ids::verify() const {
    if (!stored()) return;
    std::vector<std::int64_t> order(static_cast<std::size_t>(count_));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    for (const std::int64_t i : order) check_id(stored_id(i), fmt::format("{}: id {}", where_, i));
    std::sort(order.begin(), order.end(), [this](std::int64_t a, std::int64_t b) {
        return std::pair(stored_id(a), a) < std::pair(stored_id(b), b);
    });
    for (std::size_t i = 1; i < order.size(); ++i) {
        if (stored_id(order[i]) != stored_id(order[i - 1])) continue;
        bad_data(where_, "ids: '{}' names both {} and {}", printable(stored_id(order[i])), order[i - 1], order[i]);
    }
}

}  // namespace rowmax::io
