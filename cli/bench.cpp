// rowmax bench: this machine's kernels on a few shapes, beside what the same run finds the machine can do: its FMA
// peak, or a device's copy.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/measure.hpp"
#include "cli/bench/on_device.hpp"
#include "cli/checks/checks.hpp"
#include "cli/commands.hpp"
#include "cli/devices.hpp"
#include "cli/exit_code.hpp"
#include "cli/shared.hpp"
#include "cli/signals.hpp"
#include "cli/table.hpp"
#include "core/registry.hpp"

namespace rowmax::cli {

namespace {

struct BenchCommand {
    std::vector<std::string> shapes;
    std::string dtype;
    double seconds = 0.5;
    bool json = false;
    bool all_kernels = false;
    ComputeOptions compute;
};

struct Line {
    bench::Shape shape;
    std::string kernel;
    DType dtype;
    bench::Timing timing;
};

struct DeviceLine {
    bench::Shape shape;
    std::string kernel;
    DType dtype;
    bench::DeviceTiming timing;
};

struct Work {
    std::string kernel;
    DType dtype;
    bench::Shape shape;
};

bool selected(const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

/// Forced: the kernels of that name. Otherwise the one that a call takes for each type, or all.
std::vector<std::pair<std::string, DType>> chosen_kernels(const BenchCommand& command) {
    const std::string& forced = command.compute.kernel;
    std::vector<std::pair<std::string, DType>> chosen;
    std::set<std::pair<DType, bool>> served;  // uint8 is sign bits or residual codes
    for (const core::Kernel& kernel : core::cpu_kernels()) {
        const bool available = kernel.missing_features().empty();
        if (!available || !(forced.empty() || core::names(forced, kernel.name))) continue;
        for (const DType dtype : checks::dtypes_of({&kernel})) {
            if (!command.dtype.empty() && command.dtype != name_of(dtype)) continue;
            const bool first = served.emplace(dtype, kernel.name.ends_with(".residual")).second;
            if (first || command.all_kernels || !forced.empty()) chosen.emplace_back(kernel.name, dtype);
        }
    }
    return chosen;
}

[[noreturn]] void throw_nothing_selected() {
    throw Error(ErrorCode::not_implemented, "no kernel that this machine can run was selected");
}

std::vector<Work> plan(const BenchCommand& command) {
    std::vector<Work> work;
    for (const bench::Shape& shape : bench::shapes()) {
        if (!selected(command.shapes, shape.name)) continue;
        for (const auto& [kernel, dtype] : chosen_kernels(command)) work.push_back({kernel, dtype, shape});
    }
    return work;
}

std::vector<Line> run_all(const BenchCommand& command) {
    Options options = score_options(command.compute);
    const std::vector<Work> work = plan(command);
    if (work.empty()) throw_nothing_selected();
    std::vector<Line> lines;
    Progress progress("measuring", "cases");
    for (const Work& item : work) {
        options.kernel = item.kernel;
        lines.push_back({item.shape, item.kernel, item.dtype,
                         bench::measure(item.shape, item.dtype, options, command.seconds, check_interrupted)});
        progress.update(static_cast<std::int64_t>(lines.size()), static_cast<std::int64_t>(work.size()));
    }
    progress.finish();
    return lines;
}

/// The kernels of a device that the command asks for, of those that take the shape.
std::vector<const core::Kernel*> chosen_kernels(const BenchCommand& command, const bench::DeviceBench& bench) {
    const std::string& forced = command.compute.kernel;
    std::vector<const core::Kernel*> chosen;
    for (const core::Kernel& kernel : core::cuda_kernels()) {
        const bool wanted = forced.empty() || core::names(forced, kernel.name);
        if (wanted && kernel.missing_features().empty() && bench.takes(kernel)) chosen.push_back(&kernel);
    }
    if (forced.empty() && !command.all_kernels && !chosen.empty()) chosen = {&bench.chosen("")};
    return chosen;
}

std::vector<DeviceLine> run_all(const BenchCommand& command, int device) {
    score_options(command.compute);  // refuses a kernel that does not exist
    std::vector<DeviceLine> lines;
    Progress progress("measuring", "shapes");
    const std::vector<bench::Shape>& shapes = bench::shapes();
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        if (!selected(command.shapes, shapes[i].name)) continue;
        for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
            if (!command.dtype.empty() && command.dtype != name_of(dtype)) continue;
            bench::DeviceBench bench(shapes[i], dtype, stream::device_backend(), device);
            for (const core::Kernel* kernel : chosen_kernels(command, bench)) {
                lines.push_back({shapes[i], std::string(kernel->name), dtype,
                                 bench.measure(*kernel, command.seconds, check_interrupted)});
            }
        }
        progress.update(static_cast<std::int64_t>(i + 1), static_cast<std::int64_t>(shapes.size()));
    }
    progress.finish();
    if (lines.empty()) throw_nothing_selected();
    return lines;
}

std::string as_text(const std::vector<DeviceLine>& lines) {
    Table table({"shape", "documents", "tokens", "kernel", "median ms", "p10", "p90", "documents/s", "TB/s", "of copy",
                 "TFLOP/s"});
    double copy = 0;
    for (const DeviceLine& line : lines) {
        const bench::DeviceTiming& t = line.timing;
        copy = std::max(copy, t.copy_tb_per_s);
        table.add({line.shape.name, std::to_string(t.documents), std::string(name_of(line.dtype)), line.kernel,
                   fmt::format("{:.4g}", t.median_ms), fmt::format("{:.4g}", t.p10_ms), fmt::format("{:.4g}", t.p90_ms),
                   fmt::format("{:.3g}", t.documents_per_s), fmt::format("{:.2f}", t.tb_per_s),
                   fmt::format("{:.0f} %", 100 * t.tb_per_s / t.copy_tb_per_s), fmt::format("{:.1f}", t.tflops)});
    }
    return table.text() + fmt::format("A copy within the device's memory reads and writes {:.2f} TB/s.\n", copy);
}

std::string as_json(const std::vector<DeviceLine>& lines) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const DeviceLine& line : lines) {
        const bench::DeviceTiming& t = line.timing;
        list.push_back({{"case", line.shape.name},
                        {"documents", t.documents},
                        {"dtype", name_of(line.dtype)},
                        {"kernel", line.kernel},
                        {"median_ms", t.median_ms},
                        {"p10_ms", t.p10_ms},
                        {"p90_ms", t.p90_ms},
                        {"documents_per_s", t.documents_per_s},
                        {"tb_per_s", t.tb_per_s},
                        {"tflops", t.tflops},
                        {"copy_tb_per_s", t.copy_tb_per_s},
                        {"repetitions", t.repetitions}});
    }
    return list.dump(2) + "\n";
}

std::string as_text(const std::vector<Line>& lines) {
    Table table({"shape", "tokens", "kernel", "median ms", "p10", "p90", "GFLOP/s", "of FMA peak"});
    for (const Line& line : lines) {
        const bench::Timing& t = line.timing;
        table.add({line.shape.name, std::string(name_of(line.dtype)), line.kernel, fmt::format("{:.4g}", t.median_ms),
                   fmt::format("{:.4g}", t.p10_ms), fmt::format("{:.4g}", t.p90_ms), fmt::format("{:.1f}", t.gflops),
                   t.peak_gflops > 0 ? fmt::format("{:.0f} %", 100 * t.gflops / t.peak_gflops) : "?"});
    }
    return table.text();
}

std::string as_json(const std::vector<Line>& lines) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Line& line : lines) {
        const bench::Timing& t = line.timing;
        list.push_back({{"case", line.shape.name},
                        {"dtype", name_of(line.dtype)},
                        {"kernel", line.kernel},
                        {"median_ms", t.median_ms},
                        {"p10_ms", t.p10_ms},
                        {"p90_ms", t.p90_ms},
                        {"gflops", t.gflops},
                        {"fma_peak_gflops", t.peak_gflops},
                        {"repetitions", t.repetitions}});
    }
    return list.dump(2) + "\n";
}

/// -1: the CPU, for auto also where it alone has what is asked for.
int device_of(const BenchCommand& command) {
    const Devices devices = choose_devices(command.compute);
    if (devices.cuda.empty()) return -1;
    const std::string& forced = command.compute.kernel;
    const auto kernels = core::cuda_kernels();
    const bool has = forced.empty() || std::any_of(kernels.begin(), kernels.end(), [&](const core::Kernel& kernel) {
                         return core::names(forced, kernel.name);
                     });
    if (devices.left_to_us && (!has || command.dtype == name_of(DType::f64))) return -1;
    return devices.cuda.front();
}

void run_bench(const BenchCommand& command) {
    const auto report = [&](const auto& lines) { write_all("-", command.json ? as_json(lines) : as_text(lines)); };
    const int device = device_of(command);
    if (device < 0) return report(run_all(command));
    report(run_all(command, device));
}

}  // namespace

void add_bench(Program& program) {
    Command sub = program.add_command("bench", "Time the kernels on this machine");
    auto command = std::make_shared<BenchCommand>();
    std::vector<std::string> names;
    std::string list;
    for (const bench::Shape& s : bench::shapes()) {
        names.push_back(s.name);
        list += fmt::format("  {:<9} {} x {} documents, {} x {} tokens, d = {}\n", s.name, s.queries, s.documents,
                            s.query_length, s.document_length, s.dim);
    }
    sub.add("--shape", command->shapes, "Shapes to time; all when left out").one_of(names);
    sub.add("--dtype", command->dtype, "Type of the tokens; all when left out")
        .one_of({"float16", "bfloat16", "float32", "float64"});
    sub.add("--seconds", command->seconds, "Time for each line").show_default().within(0.0, 3600.0);
    sub.add_flag("--all-kernels", command->all_kernels,
                 "Every kernel that runs here; when left out, those that calls take");
    sub.add_flag("--json", command->json, "JSON");
    add_device_option(sub, command->compute);
    add_threads_option(sub, command->compute);
    add_kernel_option(sub, command->compute);
    sub.set_footer(
        "Each repetition is preceded by a probe of the float32 multiply-add units on as many threads; on a CUDA "
        "device, "
        "where there are 16 times as many documents, by copies within its memory.\n\nShapes:\n" +
        list +
        "\nExamples:\n  rowmax bench\n"
        "  rowmax bench --device cpu --shape text --dtype float32 --threads 1 --seconds 3");
    sub.runs([command] { run_bench(*command); });
}

}  // namespace rowmax::cli
