// A file mapped for reading.
//
// Readers take sizes only from here, never from a header: a header's numbers are compared with bytes().size() before
// anything is touched. A file that another process cuts short while it is mapped raises SIGBUS, as with every mapping;
// rowmax's own writers never change a file in place, they replace it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace rowmax::io {

class MappedFile {
  public:
    /// Throws Error(io) naming the file. Only regular files can be mapped; an empty one has empty bytes().
    static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  private:
    MappedFile(std::filesystem::path path, std::span<const std::byte> bytes);
    std::filesystem::path path_;
    std::span<const std::byte> bytes_;
};

}  // namespace rowmax::io
