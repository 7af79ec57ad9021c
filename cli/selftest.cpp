// rowmax selftest: every kernel of this build against the oracle, on this machine.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

struct SelftestCommand {
    ComputeOptions compute;
    bool json = false;
};

struct ReportLine {
    std::string device;
    std::string kernel;
    DType dtype;
    std::vector<checks::Report> reports;  ///< one for each check
};

struct Unavailable {
    std::string kernel;
    std::string refusal;
};

struct Outcome {
    std::vector<ReportLine> lines;
    std::vector<Unavailable> unavailable;
    double seconds = 0;
    std::int64_t failed = 0;
};

std::string device_name(const checks::Target& target) {
    return target.backend == nullptr ? "cpu" : fmt::format("cuda:{}", target.ordinal);
}

/// The kernels of the command's devices, those too that this machine cannot run.
std::vector<checks::Target> targets_of(const ComputeOptions& compute) {
    const Devices devices = choose_devices(compute);
    std::vector<checks::Target> targets;
    const auto add = [&](const core::Kernel& row, const stream::DeviceBackend* backend, int ordinal) {
        if (compute.kernel.empty() || core::names(compute.kernel, row.name))
            targets.push_back({&row, backend, ordinal});
    };
    for (const int ordinal : devices.cuda) {
        for (const core::Kernel& row : core::cuda_kernels()) add(row, &stream::device_backend(), ordinal);
    }
    const bool everything = compute.device == "auto" || compute.device == "all";
    if (devices.cuda.empty() && everything) {  // to say why they are not tested
        for (const core::Kernel& row : core::cuda_kernels()) add(row, nullptr, 0);
    }
    if (compute.device != "cpu" && !everything) return targets;
    for (const core::Kernel& row : core::cpu_kernels()) add(row, nullptr, 0);
    return targets;
}

checks::Report run_check(const checks::Check& check, const checks::Target& target, DType dtype) {
    try {
        return check.run(target, dtype, check_interrupted);
    } catch (const Error& error) {
        checks::Report report;
        report.fail(fmt::format("stopped by an error: {}", error.what()));
        return report;
    }
}

void run_kernel(const checks::Target& target, Outcome& outcome) {
    for (const DType dtype : checks::dtypes_of(target)) {
        ReportLine line{device_name(target), std::string(target.row->name), dtype, {}};
        for (const checks::Check& check : checks::all_checks()) {
            line.reports.push_back(run_check(check, target, dtype));
            outcome.failed += line.reports.back().failed;
        }
        outcome.lines.push_back(std::move(line));
    }
}

Outcome run_all(const SelftestCommand& command) {
    const auto start = std::chrono::steady_clock::now();
    Outcome outcome;
    const std::vector<checks::Target> targets = targets_of(command.compute);
    Progress progress("testing", "kernels");
    for (std::size_t i = 0; i < targets.size(); ++i) {
        const core::Kernel& row = *targets[i].row;
        const std::string missing = row.missing_features();
        if (missing.empty()) {
            run_kernel(targets[i], outcome);
        } else {
            outcome.unavailable.push_back({std::string(row.name), missing});
        }
        progress.update(static_cast<std::int64_t>(i + 1), static_cast<std::int64_t>(targets.size()));
    }
    progress.finish();
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return outcome;
}

std::string verdict(const checks::Report& report) {
    if (!report.passed()) return fmt::format("{} FAILED", report.failed);
    return report.cases == 0 ? "-" : fmt::format("{} ok", report.cases);
}

std::string as_text(const Outcome& outcome) {
    std::vector<std::string> header{"device", "kernel", "tokens"};
    for (const checks::Check& check : checks::all_checks()) header.emplace_back(check.name);
    Table table(header);
    std::string failures;
    for (const ReportLine& line : outcome.lines) {
        std::vector<std::string> row{line.device, line.kernel, std::string(name_of(line.dtype))};
        for (std::size_t c = 0; c < line.reports.size(); ++c) {
            row.push_back(verdict(line.reports[c]));
            for (const std::string& what : line.reports[c].failures) {
                failures += fmt::format("{} {} {}, {}: {}\n", line.device, line.kernel, name_of(line.dtype),
                                        checks::all_checks()[c].name, what);
            }
        }
        table.add(std::move(row));
    }
    std::string text = table.text();
    for (const Unavailable& kernel : outcome.unavailable)
        text += fmt::format("{}  not tested, this machine lacks: {}\n", kernel.kernel, kernel.refusal);
    text += failures;
    return text + fmt::format("{} in {:.1f} s\n",
                              outcome.failed == 0 ? "all passed" : fmt::format("{} FAILED", outcome.failed),
                              outcome.seconds);
}

std::string as_json(const Outcome& outcome) {
    nlohmann::ordered_json root = {{"passed", outcome.failed == 0},
                                   {"failed", outcome.failed},
                                   {"seconds", outcome.seconds},
                                   {"kernels", nlohmann::ordered_json::array()}};
    for (const ReportLine& line : outcome.lines) {
        nlohmann::ordered_json item = {
            {"device", line.device}, {"kernel", line.kernel}, {"dtype", name_of(line.dtype)}};
        for (std::size_t c = 0; c < line.reports.size(); ++c) {
            const checks::Report& report = line.reports[c];
            item["checks"][std::string(checks::all_checks()[c].name)] = {
                {"cases", report.cases}, {"failed", report.failed}, {"failures", report.failures}};
        }
        root["kernels"].push_back(std::move(item));
    }
    for (const Unavailable& kernel : outcome.unavailable)
        root["unavailable"].push_back({{"kernel", kernel.kernel}, {"refusal", kernel.refusal}});
    return root.dump(2) + "\n";
}

void run_selftest(const SelftestCommand& command) {
    score_options(command.compute);  // refuses a kernel that does not exist
    const Outcome outcome = run_all(command);
    if (outcome.lines.empty() && !command.compute.kernel.empty()) {
        throw Error(
            ErrorCode::not_implemented,
            fmt::format("--kernel {}: this machine cannot run it: {}", command.compute.kernel,
                        outcome.unavailable.empty() ? "no token type is taken" : outcome.unavailable.front().refusal));
    }
    write_all("-", command.json ? as_json(outcome) : as_text(outcome));
    if (outcome.failed > 0) throw Failed{exit_device};
}

}  // namespace

void add_selftest(Program& program) {
    Command sub = program.add_command("selftest", "Check every kernel on this machine against the oracle");
    auto command = std::make_shared<SelftestCommand>();
    add_device_option(sub, command->compute);
    add_kernel_option(sub, command->compute);
    sub.add_flag("--json", command->json, "JSON");
    std::string list;
    for (const checks::Check& check : checks::all_checks())
        list += fmt::format("  {:<11} {}\n", check.name, check.description);
    sub.set_footer(
        "The oracle is the definition, in double precision. Checks:\n" + list +
        "auto tests the CPU's kernels and those of the first CUDA device, all those of every device.\n"
        "Exit code 4 when a check fails.\n\nExamples:\n  rowmax selftest\n  rowmax selftest --device cuda:1\n"
        "  rowmax selftest --kernel cpu.avx2 --json");
    sub.runs([command] { run_selftest(*command); });
}

}  // namespace rowmax::cli
