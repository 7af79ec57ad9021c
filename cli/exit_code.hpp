// How a run ends: the exit codes users may rely on, and the exceptions that lead to them.
#pragma once

#include <stdexcept>
#include <string>

#include "rowmax/error.hpp"

namespace rowmax::cli {

enum ExitCode : int {
    exit_ok = 0,
    exit_internal = 1,       ///< a fault of rowmax itself
    exit_usage = 2,          ///< the command line is wrong
    exit_data = 3,           ///< a file is missing, wrong, or cannot be written
    exit_device = 4,         ///< this machine cannot do it: no such device or kernel, not enough memory, a check failed
    exit_interrupted = 130,  ///< SIGINT or SIGTERM
};

/// The command line is wrong in a way the option parser cannot see.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The run did its work and reported it, and the answer is a failure (selftest).
struct Failed {
    ExitCode code;
};

/// The exit code of an Error.
ExitCode exit_code(ErrorCode code);

}  // namespace rowmax::cli
