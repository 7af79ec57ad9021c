// Ctrl-C and its kin: a signal only sets a flag; long work asks check_interrupted() between steps, and the
// exception unwinds through everything that cleans up after itself.
#pragma once

namespace rowmax::cli {

/// Thrown by check_interrupted(); ends the run with exit code 130.
struct Interrupted {};

/// SIGINT and SIGTERM set the flag; a second one, or two seconds in which nobody asks, end the process at once, without
/// its temporary files; SIGPIPE ends it quietly, as filters
/// do; SIGXFSZ becomes a write error.
void install_signal_handlers();

[[nodiscard]] bool interrupted() noexcept;
/// Throws Interrupted once a signal has come.
void check_interrupted();

}  // namespace rowmax::cli
