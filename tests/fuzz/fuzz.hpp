// What every fuzzer needs: seeds made in code, bytes as a file, and the rule that an Error is the only way to fail.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/promise.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::fuzz {

/// Valid inputs to start from; each fuzzer defines its own.
std::vector<std::string> seeds();

/// Bytes that have a path, without a disk.
class MemoryFile {
  public:
    explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", 0)) {
        if (fd_ < 0 || ::write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) abort();
    }
    ~MemoryFile() { close(fd_); }
    MemoryFile(MemoryFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    MemoryFile& operator=(MemoryFile&&) = delete;
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  private:
    int fd_;
};

/// Reads every byte of a view, so that the sanitizer sees each of them. Strides may be anything but negative.
inline void touch(const TensorView& view, int dimension = 0, std::int64_t offset = 0) {
    static volatile unsigned sum = 0;
    if (!view.given() || view.numel() == 0) return;
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    if (dimension == view.ndim) {
        const auto* at = static_cast<const unsigned char*>(view.data) + offset * size;
        for (std::int64_t i = 0; i < size; ++i) sum = sum + at[i];
        return;
    }
    for (std::int64_t i = 0; i < view.shape[dimension]; ++i)
        touch(view, dimension + 1, offset + i * view.stride[dimension]);
}

inline std::string_view text(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

}  // namespace rowmax::fuzz

// Hands the seeds to libFuzzer as files of this process.
extern "C" inline int LLVMFuzzerInitialize(int* argc, char*** argv) {
    static std::vector<rowmax::fuzz::MemoryFile> files;
    static std::string option = "-seed_inputs=";
    for (const std::string& seed : rowmax::fuzz::seeds()) {
        files.emplace_back(seed);
        if (files.size() > 1) option += ',';
        option += files.back().path();
    }
    static std::vector<char*> arguments(*argv, *argv + *argc);
    if (!files.empty()) arguments.push_back(option.data());
    *argc = static_cast<int>(arguments.size());
    arguments.push_back(nullptr);
    *argv = arguments.data();
    return 0;
}
