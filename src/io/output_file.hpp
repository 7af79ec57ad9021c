// OutputFile: a file that appears whole or not at all.
//
// Data goes to a file without a name in the target's folder (a hidden temporary name where the file system knows no
// nameless files), is fsynced, and takes the target's name in one rename. An Error, a signal or kill -9 before
// that leaves what was there before; a hidden file that kill -9 leaves is removed by the next writer (leftovers.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace rowmax::io {

class OutputFile {
  public:
    /// "-" is standard output; an existing target that is no regular file (/dev/stdout, a FIFO) is written directly.
    /// Throws Error(io) naming the path.
    explicit OutputFile(const std::filesystem::path& path);
    ~OutputFile();  ///< discards what was not committed
    OutputFile(OutputFile&&) noexcept;
    OutputFile& operator=(OutputFile&&) noexcept;

    void write(std::span<const std::byte> bytes);
    void write(std::string_view text);
    /// Overwrites bytes already written. Not for standard output and other direct targets.
    void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
    /// Appends all that was written to another, uncommitted file.
    void append(OutputFile& other);
    [[nodiscard]] std::uint64_t size() const noexcept;  ///< bytes written so far
    [[nodiscard]] bool direct() const noexcept;         ///< no temporary: bytes go out as they come

    /// Hands everything to the disk and puts the file under its name.
    void commit();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace rowmax::io
