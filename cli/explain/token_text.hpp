// The text of tokens: read from files, made fit for a terminal or a page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rowmax::cli::explain {

/// A JSON list of strings, or one token a line; exactly `count` of them, else Error(data) naming the file and both
/// numbers. What is not UTF-8 becomes U+FFFD.
std::vector<std::string> read_tokens(const std::string& path, std::int64_t count);

/// Control characters, which a terminal would obey, shown as ^X; an empty token as "''".
std::string printable(std::string_view token);
/// &, <, > and quotes as entities.
std::string html_escaped(std::string_view token);

}  // namespace rowmax::cli::explain
