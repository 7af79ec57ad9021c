// Names of temporary files that must not outlive the process.
#pragma once

#include <filesystem>
#include <string_view>

namespace rowmax::io {

/// A name beside `target`, remembered until this object goes: ".TARGET.rowmax-MACHINE-PROCESS-NUMBER.tmp". No other
/// object of this process has it; one of a process of the same number in another container may, so create exclusively.
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

/// How many names are tried before a folder in which all exist is an error.
constexpr int name_attempts = 100;

/// Whether a file's name is one that a TemporaryName of this machine had.
bool is_temporary_name(std::string_view name);

/// Removes a file, or a folder of files; what cannot be removed stays. Async-signal-safe.
void remove_temporary(const char* path) noexcept;

/// Removes every file, and every folder of files, that bears a remembered name. Async-signal-safe: for the handler of a
/// signal that ends the program.
void remove_temporary_files() noexcept;

}  // namespace rowmax::io
