#include "cli/explain/token_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/json_text.hpp"
#include "io/mapped_file.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cli::explain {

namespace {

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> result;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        if (line.ends_with('\r')) line.pop_back();
        result.push_back(as_utf8(line));
    }
    return result;
}

}  // namespace

std::vector<std::string> read_tokens(const std::string& path, std::int64_t count) {
    const auto file = io::MappedFile::open(path);
    const std::string text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    // A list begins with [" or []; a first token "[CLS]" on a line of its own does not.
    const std::size_t second = first == std::string::npos ? first : text.find_first_not_of(" \t\r\n", first + 1);
    const bool list = second != std::string::npos && text[first] == '[' && (text[second] == '"' || text[second] == ']');
    std::vector<std::string> tokens = list ? parse_string_list(text, path) : lines(text);
    if (static_cast<std::int64_t>(tokens.size()) != count) {
        throw Error(ErrorCode::data, fmt::format("{}: {} tokens, but the item has {}", path, tokens.size(), count));
    }
    return tokens;
}

std::string printable(std::string_view token) {
    if (token.empty()) return "''";
    std::string result;
    for (const char c : token) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) {
            result += '^';
            result += static_cast<char>(byte ^ 0x40);
        } else {
            result += c;
        }
    }
    return result;
}

std::string html_escaped(std::string_view token) {
    std::string result;
    for (const char c : token) {
        switch (c) {
            case '&': result += "&amp;"; break;
            case '<': result += "&lt;"; break;
            case '>': result += "&gt;"; break;
            case '"': result += "&quot;"; break;
            case '\'': result += "&#39;"; break;
            default: result += c;
        }
    }
    return result;
}

std::size_t columns(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace rowmax::cli::explain
