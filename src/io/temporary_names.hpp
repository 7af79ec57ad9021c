// Names of temporary files that must not outlive the process.
#pragma once

#include <filesystem>

namespace rowmax::io {

/// A name beside `target` that no file has, remembered until this object goes.
class TemporaryName {
  public:
    explicit TemporaryName(const std::filesystem::path& target);
    ~TemporaryName();
    TemporaryName(const TemporaryName&) = delete;
    TemporaryName& operator=(const TemporaryName&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  private:
    std::filesystem::path path_;
    int slot_ = -1;
};

/// Removes every file, and every folder of files, that bears a remembered name. Async-signal-safe: for the handler of a
/// signal that ends the program.
void remove_temporary_files() noexcept;

}  // namespace rowmax::io
