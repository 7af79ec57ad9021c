#include "cli/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string_view>

#include "io/output_file.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cli {

namespace {

// What kernels of this project use or may come to use.
constexpr std::array features = {"fma",      "f16c",        "avx2",        "avx_vnni",    "avx512f",  "avx512bw",
                                 "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16",
                                 "amx_int8", "asimd",       "asimdhp",     "asimddp",     "bf16",     "sve"};

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// "key : value" of /proc files; the first line whose key matches.
std::string field(const std::string& path, std::string_view key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos || line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1) != key) continue;
        const std::size_t value = line.find_first_not_of(" \t", colon + 1);
        return value == std::string::npos ? std::string() : line.substr(value);
    }
    return {};
}

std::int64_t kib_field(const std::string& path, std::string_view key) {
    std::int64_t kib = 0;
    std::istringstream(field(path, key)) >> kib;
    return kib * 1024;
}

std::vector<std::string> cpu_features() {
    std::string flags = field("/proc/cpuinfo", "flags");
    if (flags.empty()) flags = field("/proc/cpuinfo", "Features");
    std::istringstream words(flags);
    std::vector<std::string> have;
    for (std::string word; words >> word;) {
        if (std::find(features.begin(), features.end(), word) != features.end()) have.push_back(word);
    }
    return have;
}

int allowed_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

// "max 100000" or "200000 100000": quota and period.
double cgroup_cpus() {
    std::istringstream line(first_line("/sys/fs/cgroup/cpu.max"));
    double quota = 0;
    double period = 0;
    return line >> quota >> period && period > 0 ? quota / period : 0;
}

std::int64_t cgroup_memory() {
    std::int64_t bytes = 0;
    std::istringstream(first_line("/sys/fs/cgroup/memory.max")) >> bytes;
    return bytes;
}

std::map<std::string, std::string> rowmax_variables() {
    std::map<std::string, std::string> found;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::size_t equals = text.find('=');
        if (text.starts_with("ROWMAX_") && equals != std::string_view::npos) {
            found.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    return found;
}

}  // namespace

Machine look_at_machine() {
    Machine machine;
    machine.cpu = field("/proc/cpuinfo", "model name");
    machine.features = cpu_features();
    machine.cpus_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    machine.cpus_allowed = allowed_cpus();
    machine.cpu_quota = cgroup_cpus();
    machine.memory_total = kib_field("/proc/meminfo", "MemTotal");
    machine.memory_available = kib_field("/proc/meminfo", "MemAvailable");
    machine.memory_limit = cgroup_memory();
    machine.nvidia_driver = first_line("/proc/driver/nvidia/version");
    machine.variables = rowmax_variables();
    return machine;
}

std::string why_not_writable(const std::string& folder) {
    try {
        io::OutputFile probe(folder + "/.rowmax-doctor");  // never committed: nothing is left
        probe.write("x");
        return {};
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace rowmax::cli
