#include "io/output_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "io/descriptor.hpp"
#include "io/file_error.hpp"

namespace rowmax::io {

namespace fs = std::filesystem;

namespace {

// "folder/" is that folder.
fs::path without_slash(const fs::path& path) {
    return path.has_filename() ? path : path.parent_path();
}

void sync_folder(const fs::path& folder) {
    const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened.get() >= 0) fsync(opened.get());  // some file systems cannot; the files themselves are safe
}

}  // namespace

OutputFolder::OutputFolder(const fs::path& path) : target_(without_slash(path)), name_(target_) {
    std::error_code ignored;
    const bool empty_folder = fs::is_directory(target_, ignored) && fs::is_empty(target_, ignored);
    if (fs::exists(target_, ignored) && !empty_folder) system_failure(path, "create", EEXIST);
    std::error_code error;
    if (!fs::create_directory(name_.path(), error)) system_failure(path, "create", error ? error.value() : EEXIST);
}

OutputFolder::~OutputFolder() {
    std::error_code ignored;
    if (!committed_) fs::remove_all(name_.path(), ignored);
}

void OutputFolder::commit() {
    sync_folder(name_.path());
    if (rename(name_.path().c_str(), target_.c_str()) != 0) system_failure(target_, "create", errno);
    committed_ = true;
    sync_folder(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace rowmax::io
