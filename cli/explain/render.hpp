// An explanation for people and for programs.
#pragma once

#include <string>
#include <string_view>

#include "cli/explain/explanation.hpp"

namespace rowmax::cli::explain {

/// A table of query tokens, what answered them and how well, and then the document. Without colour, tokens
/// that answered stand in [brackets].
std::string terminal_text(const Explanation& pair, bool colour);

/// One page that needs nothing else: tables, the document with its answers coloured, and a picture.
/// `png`: the heat map, embedded; `caption` says what it shows.
std::string html_page(const Explanation& pair, const std::string& png, std::string_view caption);

/// Scores, winners and similarities; the matrix too if asked for.
std::string json_text(const Explanation& pair, bool matrix);

}  // namespace rowmax::cli::explain
