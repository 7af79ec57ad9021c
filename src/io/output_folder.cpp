#include "io/output_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "io/descriptor.hpp"
#include "io/file_error.hpp"
#include "io/leftovers.hpp"

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

OutputFolder::OutputFolder(const fs::path& path) : target_(without_slash(path)) {
    std::error_code ignored;
    const bool empty_folder = fs::is_directory(target_, ignored) && fs::is_empty(target_, ignored);
    if (fs::exists(target_, ignored) && !empty_folder) system_failure(path, "create", EEXIST);
    remove_leftovers(target_.parent_path());
    for (int attempt = 0; attempt < name_attempts; ++attempt) {
        if (make(path)) return;
    }
    system_failure(path, "create", EEXIST);
}

bool OutputFolder::make(const fs::path& path) {
    name_.emplace(target_);
    if (mkdir(name_->path().c_str(), 0777) != 0) {
        if (errno == EEXIST) return false;
        system_failure(path, "create", errno);
    }
    held_.reset(::open(name_->path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (held_.get() >= 0) return hold(held_.get(), name_->path());
    const int error = errno;
    if (error == ENOENT) return false;  // taken for a leftover
    rmdir(name_->path().c_str());
    system_failure(path, "open", error);
}

OutputFolder::~OutputFolder() {
    std::error_code ignored;
    if (!committed_) fs::remove_all(name_->path(), ignored);
}

void OutputFolder::commit() {
    sync_folder(name_->path());
    if (rename(name_->path().c_str(), target_.c_str()) != 0) system_failure(target_, "create", errno);
    committed_ = true;
    sync_folder(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace rowmax::io
