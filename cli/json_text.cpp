#include "cli/json_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rowmax/error.hpp"

namespace rowmax::cli {

using nlohmann::json;

std::string json_quoted(const std::string& text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string as_utf8(const std::string& text) {
    return json::parse(json_quoted(text)).get<std::string>();
}

std::vector<std::string> parse_string_list(const std::string& text, const std::string& where) {
    try {
        return json::parse(text).get<std::vector<std::string>>();
    } catch (const json::exception& error) {
        throw Error(ErrorCode::data, fmt::format("{}: not a JSON list of strings: {}", where, error.what()));
    }
}

}  // namespace rowmax::cli
