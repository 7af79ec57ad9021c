#include "cli/explain/token_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/json_text.hpp"
#include "io/text_file.hpp"
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
    const std::string text = io::read_text(path);
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
    for (std::size_t i = 0; i < token.size(); ++i) {
        const auto byte = static_cast<unsigned char>(token[i]);
        const auto next = static_cast<unsigned char>(i + 1 < token.size() ? token[i + 1] : 0);
        if (byte < 0x20 || byte == 0x7f) {
            result += '^';
            result += static_cast<char>(byte ^ 0x40);
        } else if (byte == 0xc2 && next >= 0x80 &&
                   next < 0xa0) {  // U+0080 to U+009F: what ESC begins, in one character
            result += fmt::format("<{:02x}>", next);
            ++i;
        } else {
            result += token[i];
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

}  // namespace rowmax::cli::explain
