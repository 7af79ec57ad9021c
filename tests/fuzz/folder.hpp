// Inputs that are folders.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "fuzz/pieces.hpp"

namespace rowmax::fuzz {

/// A folder of this process, written anew for every input.
class Folder {
  public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "rowmax-fuzz-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) abort();
        path_ = name;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    /// A piece of the input into each file, in this order, as far as they go; there are no others.
    void fill(std::span<const char* const> names, std::string_view input) const {
        for (const char* name : names) {
            std::filesystem::remove(path_ / name);  // the old file may still be mapped
            std::string_view piece;
            if (next_piece(input, piece)) std::ofstream(path_ / name, std::ios::binary) << piece;
        }
    }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace rowmax::fuzz
