#include "io/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "io/descriptor.hpp"
#include "io/file_error.hpp"

namespace rowmax::io {

namespace {

std::size_t regular_file_size(int fd, const std::filesystem::path& path) {
    struct stat info {};
    if (fstat(fd, &info) != 0) system_failure(path, "stat", errno);
    if (S_ISDIR(info.st_mode)) system_failure(path, "read", EISDIR);
    if (!S_ISREG(info.st_mode)) throw Error(ErrorCode::io, path.string() + ": only regular files can be mapped");
    return static_cast<std::size_t>(info.st_size);
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
    // O_NONBLOCK: a FIFO without a writer must give an error, not wait.
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) system_failure(path, "open", errno);
    const std::size_t size = regular_file_size(file.get(), path);
    std::span<const std::byte> bytes;
    if (size > 0) {
        void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
        if (data == MAP_FAILED) system_failure(path, "map", errno);
        bytes = {static_cast<const std::byte*>(data), size};
    }
    return std::shared_ptr<const MappedFile>(new MappedFile(path, bytes));
}

}  // namespace rowmax::io
