#include "io/temporary_names.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
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

}  // namespace

TemporaryName::TemporaryName(const std::filesystem::path& target)
    : path_(target.parent_path() /
            fmt::format(".{}.{}.{}.tmp", target.filename().string().substr(0, 200), getpid(), serial.fetch_add(1))),
      slot_(remember(path_.string())) {}

TemporaryName::~TemporaryName() {
    if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].state.store(State::free);
}

void remove_temporary_files() noexcept {
    for (Slot& slot : slots) {
        if (slot.state.load() == State::live) unlink(slot.name.data());
    }
}

}  // namespace rowmax::io
