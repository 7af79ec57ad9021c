// What rowmax can see of the machine it runs on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rowmax::cli {

struct Machine {
    std::string cpu;                    ///< model name
    std::vector<std::string> features;  ///< instruction sets that matter here, as the kernel names them
    int cpus_online = 0;
    int cpus_allowed = 0;  ///< by affinity
    double cpu_quota = 0;  ///< by cgroup, in CPUs; 0: none
    std::int64_t memory_total = 0;
    std::int64_t memory_available = 0;
    std::int64_t memory_limit = 0;                 ///< by cgroup; 0: none
    std::string nvidia_driver;                     ///< empty: none loaded
    std::map<std::string, std::string> variables;  ///< environment variables ROWMAX_*
};

Machine look_at_machine();

/// Empty when files can be made in `folder`, else the reason.
std::string why_not_writable(const std::string& folder);

}  // namespace rowmax::cli
