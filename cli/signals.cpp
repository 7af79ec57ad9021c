#include "cli/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "cli/exit_code.hpp"
#include "io/temporary_names.hpp"

namespace rowmax::cli {

namespace {

std::atomic<bool> flag = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch it");

extern "C" void on_signal(int) {
    if (!flag.exchange(true)) return;
    io::remove_temporary_files();
    _exit(exit_interrupted);
}

void handle(int signal_number, void (*handler)(int)) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(signal_number, &action, nullptr);
}

}  // namespace

void install_signal_handlers() {
    handle(SIGINT, on_signal);
    handle(SIGTERM, on_signal);
    handle(SIGPIPE, SIG_DFL);
    handle(SIGXFSZ, SIG_IGN);
}

bool interrupted() noexcept {
    return flag.load();
}

void check_interrupted() {
    if (interrupted()) throw Interrupted();
}

}  // namespace rowmax::cli
