// Small pieces of JSON, for files that need no more of it.
#pragma once

#include <string>
#include <vector>

namespace rowmax::cli {

/// A string in quotes, escaped; what is not UTF-8 becomes U+FFFD.
std::string json_quoted(const std::string& text);
/// The same text with U+FFFD for what is not UTF-8.
std::string as_utf8(const std::string& text);
/// A JSON list of strings. Throws Error(data) naming `where`.
std::vector<std::string> parse_string_list(const std::string& text, const std::string& where);

}  // namespace rowmax::cli
