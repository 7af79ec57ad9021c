// A text file, whole.
#pragma once

#include <filesystem>
#include <string>

namespace rowmax::io {

/// Reads a file, a pipe or, for "-", standard input to its end; devices are refused, and a byte order mark
/// at its start is left out. Throws Error(io) naming the path.
std::string read_text(const std::filesystem::path& path);

}  // namespace rowmax::io
