#include "io/leftovers.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "io/descriptor.hpp"
#include "io/temporary_names.hpp"

namespace rowmax::io {

namespace fs = std::filesystem;

namespace {

bool is_at(int descriptor, const fs::path& path) noexcept {
    struct stat opened {
    }, named{};
    if (fstat(descriptor, &opened) != 0 || lstat(path.c_str(), &named) != 0) return false;
    return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// Opened as a lock asks for it: NFS locks files for writing only when they are open for that, and folders never.
Descriptor open_to_lock(const fs::path& path) noexcept {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0 || (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))) return Descriptor();
    const int access = S_ISDIR(info.st_mode) ? O_RDONLY | O_DIRECTORY : O_RDWR;
    return Descriptor(::open(path.c_str(), access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

void remove_if_left(const fs::path& path) noexcept {
    const Descriptor found = open_to_lock(path);
    if (found.get() < 0 || flock(found.get(), LOCK_EX | LOCK_NB) != 0) return;
    // Its owner may have given it its final name before the lock was free.
    if (is_at(found.get(), path)) remove_temporary(path.c_str());
}

}  // namespace

bool lock(int descriptor) noexcept {
    return flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

bool hold(int descriptor, const fs::path& path) noexcept {
    return lock(descriptor) && is_at(descriptor, path);
}

void remove_leftovers(const fs::path& folder) {
    if (is_temporary_name(folder.filename().string())) return;  // its owner alone writes there
    std::error_code error;
    fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        if (is_temporary_name(entry->path().filename().string())) remove_if_left(entry->path());
    }
}

}  // namespace rowmax::io
