// What the sub-commands share: options that mean the same everywhere, inputs, outputs, progress.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "io/output_file.hpp"
#include "io/progress.hpp"
#include "io/token_source.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::cli {

/// Where and how to compute.
struct ComputeOptions {
    std::string device = "auto";
    int threads = 0;
    std::string memory;  ///< as typed; memory_bytes() reads it
    bool normalize = false;
    std::string kernel;
};

/// Declares --device, --threads, --kernel and --normalize.
void add_compute_options(Command& command, ComputeOptions& options);
void add_device_option(Command& command, ComputeOptions& options);
void add_threads_option(Command& command, ComputeOptions& options);
void add_kernel_option(Command& command, ComputeOptions& options);
void add_memory_option(Command& command, ComputeOptions& options);

/// The library's options for the CPU, with the threads that will work; cli/devices.hpp says where else. Throws
/// UsageError for a kernel no build has.
Options score_options(const ComputeOptions& options);
/// --memory in bytes; 0 without a cap.
std::int64_t memory_cap(const ComputeOptions& options);
/// What the process holds of it now, rounded up, so that a cap computed from it serves the next run too.
std::int64_t held_bytes();
/// What is left of --memory for work that begins now. 0 without a cap.
std::int64_t memory_bytes(const ComputeOptions& options);

/// "512M" -> 536870912. Suffixes K, M, G, T are powers of 1024; "B" and "iB" may follow. Throws UsageError.
std::int64_t parse_bytes(const std::string& text);

/// How the tokens of one input are found in its file.
struct InputOptions {
    std::string tensor;
    std::string dtype;
    std::string ids;
};
/// Declares --<prefix>tensor, --<prefix>dtype and --<prefix>ids; `what` names the input in the help.
void add_input_options(Command& command, InputOptions& options, const std::string& prefix, const std::string& what);
io::TokenSource load_input(const std::string& path, const InputOptions& options, const ComputeOptions& compute);

/// The number of the item called `name`: an id, or "#N" for the item with number N. Throws Error(data) if there is
/// none.
std::int64_t find_item(const io::TokenSource& source, const std::string& name, const std::string& what);

/// Empty and "-" are standard output.
io::OutputFile open_output(const std::string& path);
void write_all(const std::string& path, std::string_view text);

/// A message on standard error: "rowmax: ...". Where that cannot be written, nobody is there to be told.
void say(const std::string& message);

/// A progress bar on standard error when that is a terminal. Every update also listens for Ctrl-C.
class Progress {
  public:
    Progress(const std::string& label, const std::string& unit);
    void update(std::int64_t done, std::int64_t total);
    void finish() { bar_.finish(); }
    [[nodiscard]] io::ProgressFn callback();

  private:
    io::ProgressBar bar_;
};

}  // namespace rowmax::cli
