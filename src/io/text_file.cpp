#include "io/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "io/descriptor.hpp"
#include "io/file_error.hpp"

namespace rowmax::io {

namespace {

// What some editors put before UTF-8 text.
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

// /dev/zero has no end, and neither has the memory it would take.
void refuse_devices(const std::filesystem::path& path, int file) {
    struct stat info {};
    if (fstat(file, &info) != 0) system_failure(path, "read", errno);
    const bool device = S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && isatty(file) == 0);
    if (device) throw Error(ErrorCode::io, path.string() + ": a device, not a text file");
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
    constexpr std::size_t step = std::size_t{1} << 16;
    const Descriptor file(path == "-" ? dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) system_failure(path, "open", errno);
    refuse_devices(path, file.get());
    std::string text;
    for (std::size_t size = 0;;) {
        text.resize(size + step);
        const ssize_t got = ::read(file.get(), text.data() + size, step);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) system_failure(path, "read", errno);
        size += static_cast<std::size_t>(got);
        text.resize(size);
        if (got != 0) continue;
        if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
        return text;
    }
}

}  // namespace rowmax::io
