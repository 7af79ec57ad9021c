// What is in a file, without reading its data.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/array.hpp"

namespace rowmax::io {

struct FileSummary {
    std::string format;
    std::uint64_t file_bytes = 0;  ///< of all files, for a folder
    std::vector<ArrayInfo> arrays;
};

/// Lists the arrays of any input load_tokens() accepts; a folder lists its files.
FileSummary inspect(const std::filesystem::path& path);

}  // namespace rowmax::io
