#include "cli/shared.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>

#include "cli/devices.hpp"
#include "cli/exit_code.hpp"
#include "cli/item_number.hpp"
#include "cli/signals.hpp"
#include "core/parallel.hpp"
#include "core/registry.hpp"
#include "io/plaid_index.hpp"

namespace rowmax::cli {

namespace {

void require_kernel(const std::string& option) {
    const char* variable = std::getenv("ROWMAX_KERNEL");
    const std::string name = !option.empty() || variable == nullptr ? option : variable;
    if (name.empty()) return;
    for (const KernelInfo& info : kernels()) {
        if (core::names(name, info.name)) return;
    }
    throw UsageError(fmt::format("{}: no kernel is named '{}'; `rowmax kernels` lists them",
                                 option.empty() ? "ROWMAX_KERNEL" : "--kernel", name));
}

int threads_of(const ComputeOptions& options) {
    try {
        return core::thread_count(options.threads);
    } catch (const Error& error) {  // of ROWMAX_THREADS
        throw UsageError(error.what());
    }
}

std::string check_bytes(const std::string& text) {
    try {
        parse_bytes(text);
        return {};
    } catch (const UsageError& error) {
        return error.what();
    }
}

// Writable private memory of this process, which is what a cap on allocation counts.
std::int64_t allocated_bytes() {
    std::ifstream status("/proc/self/status");
    std::string field;
    while (status >> field) {
        std::int64_t kib = 0;
        if (field == "RssAnon:" && status >> kib) return kib * 1024;
    }
    return 0;
}

}  // namespace

void add_device_option(Command& command, ComputeOptions& options) {
    command.add("--device", options.device, fmt::format("Where to compute: {}", device_names))
        .show_default()
        .satisfies(check_device_name);
}

void add_threads_option(Command& command, ComputeOptions& options) {
    command.add("--threads", options.threads, "CPU threads; 0: ROWMAX_THREADS, or all. Results do not depend on it")
        .show_default()
        .between(0, 4096);
}

void add_kernel_option(Command& command, ComputeOptions& options) {
    command.add("--kernel", options.kernel, "Force a kernel by its name, or the part before a dot: cpu.avx2");
}

void add_compute_options(Command& command, ComputeOptions& options) {
    add_device_option(command, options);
    add_threads_option(command, options);
    add_kernel_option(command, options);
    command.add_flag("--normalize", options.normalize, "Score cosines: tokens are scaled to unit length");
}

void add_memory_option(Command& command, ComputeOptions& options) {
    command
        .add("--memory", options.memory,
             "Most the process may allocate, for instance 512M or 4G. Files are mapped, and their pages belong to the "
             "system. Results do not depend on it")
        .satisfies(check_bytes);
}

Options score_options(const ComputeOptions& options) {
    require_kernel(options.kernel);
    Options result;
    result.normalize = options.normalize;
    result.threads = threads_of(options);
    result.kernel = options.kernel;
    return result;
}

std::int64_t memory_cap(const ComputeOptions& options) {
    return options.memory.empty() ? 0 : parse_bytes(options.memory);
}

std::int64_t held_bytes() {
    constexpr std::int64_t step = std::int64_t{256} << 10;
    return (allocated_bytes() / step + 1) * step;
}

std::int64_t memory_bytes(const ComputeOptions& options) {
    const std::int64_t cap = memory_cap(options);
    return cap == 0 ? 0 : std::max<std::int64_t>(cap - held_bytes(), 1);
}

std::int64_t parse_bytes(const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    std::string suffix(end, text.data() + text.size());
    if (suffix.ends_with("iB")) suffix.resize(suffix.size() - 2);
    if (suffix.ends_with("B")) suffix.resize(suffix.size() - 1);
    constexpr std::string_view powers = "KMGT";
    const std::size_t power = suffix.empty() ? 0 : powers.find(static_cast<char>(std::toupper(suffix[0]))) + 1;
    const bool fits = power == 0 ? suffix.empty() : value <= (std::numeric_limits<std::int64_t>::max() >> (10 * power));
    if (error != std::errc() || value < 1 || suffix.size() > 1 || !fits) {
        throw UsageError(fmt::format("'{}' is not a size; write for instance 512M or 4G", text));
    }
    return value << (10 * power);
}

void add_input_options(Command& command, InputOptions& options, const std::string& prefix, const std::string& what) {
    command.add(fmt::format("--{}tensor", prefix), options.tensor,
                fmt::format("Name of the token array of {} in a .npz or safetensors file", what));
    command
        .add(fmt::format("--{}dtype", prefix), options.dtype,
             fmt::format("Type of {} stored as 16-bit integers: bfloat16 or float16", what))
        .one_of({"bfloat16", "float16"});
    command.add(fmt::format("--{}ids", prefix), options.ids, fmt::format("File with the ids of {}, one a line", what));
}

io::TokenSource load_input(const std::string& path, const InputOptions& options, const ComputeOptions& compute) {
    io::LoadOptions load;
    load.tensor = options.tensor;
    load.dtype = options.dtype;
    load.ids = options.ids;
    if (const std::int64_t memory = memory_bytes(compute); memory > 0)
        load.max_inflated_bytes = static_cast<std::uint64_t>(memory);
    if (io::is_plaid_index(path)) {
        throw Error(
            ErrorCode::data,
            fmt::format("{}: a PLAID index, whose documents `rowmax search --index` ranks; it has no tokens to read",
                        path));
    }
    return io::load_tokens(path, load);
}

std::int64_t find_item(const io::TokenSource& source, const std::string& name, const std::string& what) {
    const auto found = name.starts_with('#') ? item_number(name, source.count()) : source.ids().find(name);
    if (found) return *found;
    throw Error(ErrorCode::data,
                fmt::format("{}: no {} '{}' among its {}", source.path().string(), what, name, source.count()));
}

io::OutputFile open_output(const std::string& path) {
    return io::OutputFile(path.empty() ? "-" : path);
}

void write_all(const std::string& path, std::string_view text) {
    io::OutputFile out = open_output(path);
    out.write(text);
    out.commit();
}

void say(const std::string& message) {
    const std::string line = fmt::format("rowmax: {}\n", message);
    std::fwrite(line.data(), 1, line.size(), stderr);
}

namespace {

io::ProgressBar::Options bar_options(const std::string& unit) {
    io::ProgressBar::Options options;
    options.style = isatty(STDERR_FILENO) != 0 ? io::ProgressBar::Style::bar : io::ProgressBar::Style::silent;
    options.unit = unit;
    options.columns = [] {
        winsize size{};
        return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? int{size.ws_col} : 0;
    };
    return options;
}

}  // namespace

Progress::Progress(const std::string& label, const std::string& unit) : bar_(std::cerr, label, bar_options(unit)) {}

void Progress::update(std::int64_t done, std::int64_t total) {
    check_interrupted();
    bar_.update(done, total);
}

io::ProgressFn Progress::callback() {
    return [this](std::int64_t done, std::int64_t total) { update(done, total); };
}

}  // namespace rowmax::cli
