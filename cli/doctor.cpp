// rowmax doctor: what this machine and this build offer, and what would make them better.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.hpp"
#include "cli/machine.hpp"
#include "cli/options.hpp"
#include "cli/shared.hpp"
#include "core/device_runtime.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::cli {

namespace {

constexpr std::array known_variables = {"ROWMAX_KERNEL", "ROWMAX_THREADS"};

struct Folder {
    std::string name;
    std::string path;
    std::string problem;  ///< empty: files can be made there
};

struct CudaDevice {
    std::string name;
    std::size_t free_bytes = 0;
    std::string problem;  ///< empty: it works
};

struct Examination {
    Machine machine;
    bool cuda_kernels = false;
    std::string cuda_problem;  ///< empty: there are devices
    std::vector<CudaDevice> devices;
    std::vector<KernelInfo> kernels;
    std::vector<Folder> folders;
    std::vector<std::string> advice;
};

void advise_on_kernels(Examination& result) {
    const bool vector = std::any_of(result.kernels.begin(), result.kernels.end(), [](const KernelInfo& k) {
        return k.available && k.name.find("scalar") == std::string::npos;
    });
    if (!vector)
        result.advice.emplace_back(
            "this CPU runs only the scalar kernels, which are slow: see `rowmax kernels` for what is missing");
    if (!result.cuda_kernels && !result.machine.nvidia_driver.empty()) {
        result.advice.emplace_back("there is an NVIDIA driver, but this build has no CUDA kernels");
    }
}

void advise_on_variables(Examination& result) {
    for (const auto& [name, value] : result.machine.variables) {
        if (std::find(known_variables.begin(), known_variables.end(), name) == known_variables.end()) {
            result.advice.push_back(
                fmt::format("{} is set, but rowmax reads only {}", name, fmt::join(known_variables, ", ")));
        } else if (name == "ROWMAX_KERNEL") {
            result.advice.push_back(
                fmt::format("ROWMAX_KERNEL={} forces a kernel; unset it to let rowmax choose", value));
        }
    }
}

void advise_on_limits(Examination& result) {
    const Machine& machine = result.machine;
    if (machine.cpus_allowed > 0 && machine.cpus_allowed < machine.cpus_online) {
        result.advice.push_back(
            fmt::format("this process may use {} of {} CPUs (affinity)", machine.cpus_allowed, machine.cpus_online));
    }
    if (machine.cpu_quota > 0 && machine.cpu_quota < machine.cpus_allowed) {
        result.advice.push_back(
            fmt::format("a cgroup limits this process to {:.1f} CPUs; --threads {} avoids waiting for the quota",
                        machine.cpu_quota, std::max(1, static_cast<int>(machine.cpu_quota))));
    }
    for (const Folder& folder : result.folders) {
        if (!folder.problem.empty())
            result.advice.push_back(fmt::format("no files can be made in the {}: {}", folder.name, folder.problem));
    }
}

// A folder that was removed has no name; "." then says what is wrong with it.
std::string working_folder() {
    std::error_code gone;
    const std::filesystem::path path = std::filesystem::current_path(gone);
    return gone ? "." : path.string();
}

std::string temporary_folder() {
    const char* variable = std::getenv("TMPDIR");
    return variable == nullptr || *variable == '\0' ? "/tmp" : variable;
}

void look_at_devices(Examination& result) {
    const core::DeviceRuntime* runtime = core::device_runtime();
    result.cuda_kernels = runtime != nullptr;
    if (runtime == nullptr) return;
    result.cuda_problem = runtime->problem();
    for (int i = 0; i < runtime->count(); ++i) {
        CudaDevice& device = result.devices.emplace_back();
        try {
            device.name = runtime->name(i);
            runtime->wake(i);
            device.free_bytes = runtime->free_bytes(i);
        } catch (const Error& error) {
            device.problem = error.what();
            result.advice.push_back(fmt::format("cuda:{} cannot be used: {}", i, error.what()));
        }
    }
}

Examination examine() {
    Examination result;
    result.machine = look_at_machine();
    look_at_devices(result);
    result.kernels = kernels();
    const std::string working = working_folder();
    const std::string temporary = temporary_folder();
    result.folders = {{"working folder", working, why_not_writable(working)},
                      {"temporary folder", temporary, why_not_writable(temporary)}};
    advise_on_kernels(result);
    advise_on_variables(result);
    advise_on_limits(result);
    return result;
}

std::string gib(std::int64_t bytes) {
    return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string kernels_text(const std::vector<KernelInfo>& kernels) {
    std::vector<std::string> names;
    for (const KernelInfo& kernel : kernels) {
        if (kernel.available) names.push_back(kernel.name);
    }
    return fmt::format("{} of {}: {}", names.size(), kernels.size(), fmt::join(names, " "));
}

std::string as_text(const Examination& result) {
    const Machine& machine = result.machine;
    std::string text;
    const auto line = [&](std::string_view name, const std::string& value) {
        text += fmt::format("{:<18}{}\n", name, value);
    };
    line("rowmax", fmt::format("{}, compiled by {}", version(), __VERSION__));
    line("CPU", machine.cpu);
    line("features", fmt::format("{}", fmt::join(machine.features, " ")));
    line("CPUs", fmt::format("{} online, {} allowed{}", machine.cpus_online, machine.cpus_allowed,
                             machine.cpu_quota > 0 ? fmt::format(", cgroup quota {:.1f}", machine.cpu_quota) : ""));
    line("memory",
         fmt::format("{}, {} available{}", gib(machine.memory_total), gib(machine.memory_available),
                     machine.memory_limit > 0 ? fmt::format(", cgroup limit {}", gib(machine.memory_limit)) : ""));
    line("kernels", kernels_text(result.kernels));
    line("CUDA kernels", result.cuda_kernels ? "in this build" : "not in this build");
    for (std::size_t i = 0; i < result.devices.size(); ++i) {
        const CudaDevice& device = result.devices[i];
        line(fmt::format("cuda:{}", i),
             device.problem.empty()
                 ? fmt::format("{}, {} free", device.name, gib(static_cast<std::int64_t>(device.free_bytes)))
                 : device.problem);
    }
    if (result.cuda_kernels && result.devices.empty())
        line("CUDA devices", fmt::format("none: this machine lacks {}", result.cuda_problem));
    line("NVIDIA driver", machine.nvidia_driver.empty() ? "none" : machine.nvidia_driver);
    for (const Folder& folder : result.folders)
        line(folder.name, fmt::format("{}{}", folder.path, folder.problem.empty() ? ", writable" : ", NOT writable"));
    for (const auto& [name, value] : machine.variables) line(name, value);
    for (const std::string& advice : result.advice) line("advice", advice);
    if (result.advice.empty()) line("advice", "none: all is well");
    return text;
}

std::string as_json(const Examination& result) {
    const Machine& machine = result.machine;
    nlohmann::ordered_json root = {
        {"version", version()},
        {"compiler", __VERSION__},
        {"cpu",
         {{"model", machine.cpu},
          {"features", machine.features},
          {"online", machine.cpus_online},
          {"allowed", machine.cpus_allowed},
          {"quota", machine.cpu_quota}}},
        {"memory",
         {{"total", machine.memory_total}, {"available", machine.memory_available}, {"limit", machine.memory_limit}}},
        {"cuda",
         {{"kernels", result.cuda_kernels},
          {"driver", machine.nvidia_driver},
          {"problem", result.cuda_problem},
          {"devices", nlohmann::ordered_json::array()}}},
        {"variables", machine.variables},
        {"advice", result.advice}};
    for (const CudaDevice& device : result.devices)
        root["cuda"]["devices"].push_back(
            {{"name", device.name}, {"free", device.free_bytes}, {"problem", device.problem}});
    for (const KernelInfo& kernel : result.kernels)
        root["kernels"].push_back(
            {{"name", kernel.name}, {"available", kernel.available}, {"refusal", kernel.refusal}});
    for (const Folder& folder : result.folders)
        root["folders"].push_back({{"name", folder.name}, {"path", folder.path}, {"writable", folder.problem.empty()}});
    return root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

void add_doctor(Program& program) {
    Command sub = program.add_command("doctor", "Say what this machine and this build offer, with advice");
    auto json = std::make_shared<bool>(false);
    sub.add_flag("--json", *json, "JSON");
    sub.set_footer("Examples:\n  rowmax doctor\n  rowmax doctor --json > report.json");
    sub.runs([json] {
        const Examination result = examine();
        write_all("-", *json ? as_json(result) : as_text(result));
    });
}

}  // namespace rowmax::cli
