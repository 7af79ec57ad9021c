#include "io/text_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "io/descriptor.hpp"
#include "io/file_error.hpp"

namespace rowmax::io {

std::string read_text(const std::filesystem::path& path) {
    constexpr std::size_t step = std::size_t{1} << 16;
    const Descriptor file(path == "-" ? dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) system_failure(path, "open", errno);
    std::string text;
    for (std::size_t size = 0;;) {
        text.resize(size + step);
        const ssize_t got = ::read(file.get(), text.data() + size, step);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) system_failure(path, "read", errno);
        size += static_cast<std::size_t>(got);
        text.resize(size);
        if (got == 0) return text;
    }
}

}  // namespace rowmax::io
