// How readers and writers report: the file first, then the field, then both values.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "rowmax/error.hpp"

namespace rowmax::io {

/// The contents of a file are wrong. `where` names the file, and the member or line.
template <class... Args>
[[noreturn]] void bad_data(const std::string& where, fmt::format_string<Args...> text, Args&&... args) {
    throw Error(ErrorCode::data, where + ": " + fmt::format(text, std::forward<Args>(args)...));
}

/// A system call refused: "corpus.rmx: cannot write: No space left on device".
[[noreturn]] void system_failure(const std::filesystem::path& path, std::string_view action, int error);

/// Text out of a file, fit for a message: control characters escaped, cut to 80 bytes.
std::string printable(std::string_view text);

}  // namespace rowmax::io
