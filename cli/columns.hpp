// How wide text is in a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rowmax::cli {

/// Columns that UTF-8 text takes: two for East Asian wide characters and emoji, none for combining marks, one for
/// everything else.
std::size_t columns(std::string_view text);
/// `text`, and blanks up to `width` columns.
std::string padded(const std::string& text, std::size_t width);

}  // namespace rowmax::cli
