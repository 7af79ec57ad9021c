#include "io/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/descriptor.hpp"
#include "io/file_error.hpp"
#include "io/leftovers.hpp"
#include "io/temporary_names.hpp"

namespace rowmax::io {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 18;

namespace fs = std::filesystem;

// Where the data will be: a link is followed, so that the rename replaces the file and not the link.
fs::path resolved(const fs::path& path) {
    std::error_code ignored;
    const fs::path real = fs::is_symlink(path, ignored) ? fs::canonical(path, ignored) : fs::path();
    return real.empty() ? path : real;
}

fs::path folder_of(const fs::path& path) {
    const fs::path folder = path.parent_path();
    return folder.empty() ? fs::path(".") : folder;
}

}  // namespace

struct OutputFile::Impl {
    fs::path path;    ///< as the user said it
    fs::path target;  ///< where the file will be
    Descriptor file;
    bool direct = false;
    bool broken = false;                ///< a write failed: there is nothing to commit
    std::optional<TemporaryName> name;  ///< set while the data has a name
    std::optional<mode_t> mode;         ///< of the file that is replaced
    std::vector<std::byte> buffer;
    std::uint64_t flushed = 0;

    explicit Impl(const fs::path& given) : path(given), target(resolved(given)) {
        if (path == "-") {
            open_stdout();
        } else if (!open_existing()) {
            open_temporary();
        }
        buffer.reserve(buffer_bytes);
    }

    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    ~Impl() {
        if (name) unlink(name->path().c_str());
    }

    void open_stdout() {
        file.reset(dup(STDOUT_FILENO));
        if (file.get() < 0) system_failure(path, "open", errno);
        direct = true;
    }

    // True when the target exists and is something that cannot be replaced: a device, a pipe.
    bool open_existing() {
        struct stat info {};
        if (stat(target.c_str(), &info) != 0) return false;
        if (S_ISDIR(info.st_mode)) system_failure(path, "write", EISDIR);
        mode = info.st_mode & 07777;
        if (S_ISREG(info.st_mode)) return false;
        file.reset(::open(target.c_str(), O_WRONLY | O_CLOEXEC));
        if (file.get() < 0) system_failure(path, "open", errno);
        direct = true;
        return true;
    }

    void open_temporary() {
        remove_leftovers(target.parent_path());
        file.reset(::open(folder_of(target).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
        if (file.get() >= 0 && access(self().c_str(), F_OK) == 0) return;
        find_name([&] {
            file.reset(::open(name->path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
            return file.get() >= 0;
        });
    }

    // Makes the file under temporary names until one is new, and held before another process takes it for a leftover.
    template <class Make>
    void find_name(Make make) {
        int error = EEXIST;
        for (int attempt = 0; attempt < name_attempts && error == EEXIST; ++attempt) {
            name.emplace(target);
            if (!make()) {
                error = errno;
            } else if (hold(file.get(), name->path())) {
                return;
            }
        }
        name.reset();
        fail("create", error);
    }

    // What a nameless file is called until it has a name. Without /proc it has none.
    [[nodiscard]] std::string self() const { return fmt::format("/proc/self/fd/{}", file.get()); }

    [[noreturn]] void fail(std::string_view action, int error) {
        broken = true;
        system_failure(path, action, error);
    }

    void put(const std::byte* data, std::size_t size, std::optional<std::uint64_t> at = {}) {
        while (size > 0) {
            const ssize_t done =
                at ? pwrite(file.get(), data, size, static_cast<off_t>(*at)) : ::write(file.get(), data, size);
            if (done < 0 && errno == EINTR) continue;
            if (done < 0) fail("write", errno);
            data += done;
            size -= static_cast<std::size_t>(done);
            if (at) *at += static_cast<std::uint64_t>(done);
        }
    }

    void flush() {
        put(buffer.data(), buffer.size());
        flushed += buffer.size();
        buffer.clear();
    }

    // The nameless file gets a name beside the target first: link() cannot replace a file, rename() can.
    void give_name() {
        if (name) return;
        lock(file.get());  // beforehand: once it has lost a name it cannot have another
        find_name(
            [&] { return linkat(AT_FDCWD, self().c_str(), AT_FDCWD, name->path().c_str(), AT_SYMLINK_FOLLOW) == 0; });
    }

    void replace_target() {
        if (mode) fchmod(file.get(), *mode);
        if (fsync(file.get()) != 0) fail("write", errno);
        give_name();
        if (rename(name->path().c_str(), target.c_str()) != 0) fail("replace", errno);
        name.reset();
        sync_folder();
    }

    // So that the rename survives a power cut. Some file systems cannot sync a folder; the file itself is safe.
    void sync_folder() const {
        const Descriptor folder(::open(folder_of(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (folder.get() >= 0) fsync(folder.get());
    }
};

OutputFile::OutputFile(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
OutputFile::~OutputFile() = default;
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;

void OutputFile::write(std::span<const std::byte> bytes) {
    if (impl_->buffer.size() + bytes.size() > buffer_bytes) impl_->flush();
    if (bytes.size() >= buffer_bytes) {
        impl_->put(bytes.data(), bytes.size());
        impl_->flushed += bytes.size();
    } else {
        impl_->buffer.insert(impl_->buffer.end(), bytes.begin(), bytes.end());
    }
}

void OutputFile::write(std::string_view text) {
    write(std::as_bytes(std::span(text)));
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    impl_->flush();
    impl_->put(bytes.data(), bytes.size(), offset);
}

void OutputFile::append(OutputFile& other) {
    other.impl_->flush();
    std::vector<std::byte> chunk(buffer_bytes);
    for (std::uint64_t at = 0; at < other.size();) {
        const ssize_t got = pread(other.impl_->file.get(), chunk.data(), chunk.size(), static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) impl_->fail("read back", got < 0 ? errno : EIO);
        write(std::span(chunk).first(static_cast<std::size_t>(got)));
        at += static_cast<std::uint64_t>(got);
    }
}

std::uint64_t OutputFile::size() const noexcept {
    return impl_->flushed + impl_->buffer.size();
}

bool OutputFile::direct() const noexcept {
    return impl_->direct;
}

void OutputFile::commit() {
    if (impl_->broken) throw Error(ErrorCode::io, impl_->path.string() + ": an earlier write failed");
    impl_->flush();
    if (!impl_->direct) impl_->replace_target();
    impl_->file.reset();
}

}  // namespace rowmax::io
