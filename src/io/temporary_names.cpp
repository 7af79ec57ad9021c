#include "io/temporary_names.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

namespace rowmax::io {

namespace {

// A signal handler may neither allocate nor lock: names lie in fixed slots, published by an atomic state. Beyond 64
// open files names are not remembered, which costs a stray temporary file only if a signal comes.
enum class State : int { free, filling, live };
struct Slot {
    std::atomic<State> state{State::free};
    std::array<char, PATH_MAX> name{};
};
std::array<Slot, 64> slots;
static_assert(std::atomic<State>::is_always_lock_free);

int remember(const std::string& name) {
    if (name.size() >= PATH_MAX) return -1;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        State expected = State::free;
        if (!slots[i].state.compare_exchange_strong(expected, State::filling)) continue;
        std::copy(name.c_str(), name.c_str() + name.size() + 1, slots[i].name.begin());
        slots[i].state.store(State::live);
        return static_cast<int>(i);
    }
    return -1;
}

std::atomic<unsigned> serial{0};

// What marks a temporary name of this machine. Containers that share a folder have names of their own, too: what one of
// them has left is only known to be dead where its process could be seen.
const std::string& mark() {
    static const std::string made = [] {
        utsname machine{};
        uname(&machine);
        const auto* name = reinterpret_cast<const Bytef*>(machine.nodename);
        return fmt::format(".rowmax-{:08x}-", crc32(0, name, static_cast<uInt>(std::strlen(machine.nodename))));
    }();
    return made;
}

bool is_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Removes the files that getdents64 listed in `entries`; "." and ".." refuse.
void remove_listed(int folder, const char* entries, long bytes) noexcept {
    for (long at = 0; at < bytes;) {
        const char* entry = entries + at;
        unlinkat(folder, entry + offsetof(dirent64, d_name), 0);
        unsigned short length = 0;
        std::memcpy(&length, entry + offsetof(dirent64, d_reclen), sizeof(length));
        at += length;
    }
}

/// A folder of files. By system calls alone, because readdir() allocates.
void remove_folder(const char* path) noexcept {
    alignas(dirent64) std::array<char, 4096> entries{};
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    long bytes = 0;
    while ((bytes = syscall(SYS_getdents64, folder, entries.data(), entries.size())) > 0)
        remove_listed(folder, entries.data(), bytes);
    close(folder);
    rmdir(path);
}

}  // namespace

TemporaryName::TemporaryName(const std::filesystem::path& target)
    : path_(target.parent_path() / fmt::format(".{}{}{}-{}.tmp", target.filename().string().substr(0, 200), mark(),
                                               getpid(), serial.fetch_add(1))),
      slot_(remember(path_.string())) {}

TemporaryName::~TemporaryName() {
    if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].state.store(State::free);
}

bool is_temporary_name(std::string_view name) {
    constexpr std::string_view ending = ".tmp";
    const std::size_t at = name.rfind(mark());
    if (!name.starts_with('.') || !name.ends_with(ending) || at == std::string_view::npos) return false;
    const std::string_view numbers = name.substr(at + mark().size(), name.size() - at - mark().size() - ending.size());
    const std::size_t dash = numbers.find('-');
    return dash != std::string_view::npos && is_number(numbers.substr(0, dash)) && is_number(numbers.substr(dash + 1));
}

void remove_temporary(const char* path) noexcept {
    if (unlink(path) != 0 && errno == EISDIR) remove_folder(path);
}

void remove_temporary_files() noexcept {
    for (const Slot& slot : slots) {
        if (slot.state.load() == State::live) remove_temporary(slot.name.data());
    }
}

}  // namespace rowmax::io
