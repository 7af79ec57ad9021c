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

/// How long work may take to notice a signal, in seconds; scoring one giant pair asks nobody until it is done.
constexpr unsigned patience = 2;

extern "C" void leave_at_once(int) {
    io::remove_temporary_files();
    _exit(exit_interrupted);
}

extern "C" void on_signal(int signal_number) {
    if (flag.exchange(true)) leave_at_once(signal_number);
    alarm(patience);
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
    handle(SIGALRM, leave_at_once);
    handle(SIGPIPE, SIG_DFL);
    handle(SIGXFSZ, SIG_IGN);
}

bool interrupted() noexcept {
    return flag.load();
}

void check_interrupted() {
    if (!interrupted()) return;
    alarm(0);  // what follows is tidying up, and saving what was reached
    throw Interrupted();
}

}  // namespace rowmax::cli
