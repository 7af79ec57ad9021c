#include "cli/devices.hpp"

#include <fmt/format.h>

#include <charconv>
#include <numeric>

#include "core/device_runtime.hpp"

namespace rowmax::cli {

namespace {

/// N,M of cuda:N,M; empty when the text is no such list.
std::vector<int> ordinals_of(std::string_view text) {
    std::vector<int> ordinals;
    while (true) {
        int ordinal = -1;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
        if (error != std::errc() || ordinal < 0) return {};
        ordinals.push_back(ordinal);
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        if (text.empty()) return ordinals;
        if (text.front() != ',') return {};
        text.remove_prefix(1);
    }
}

bool names_cuda(const std::string& device) {
    return device == "cuda" || (device.starts_with("cuda:") && !ordinals_of(device.substr(5)).empty());
}

// Why no CUDA device can be used; empty when one can.
std::string cuda_problem() {
    const core::DeviceRuntime* runtime = core::device_runtime();
    if (runtime == nullptr) return "this build of rowmax has no CUDA kernels";
    const std::string problem = runtime->problem();
    return problem.empty() ? "" : fmt::format("this machine lacks {}", problem);
}

std::vector<int> named_devices(const std::string& device) {
    if (const std::string problem = cuda_problem(); !problem.empty())
        throw Error(ErrorCode::device, fmt::format("--device {}: {}; use --device cpu", device, problem));
    const int count = core::device_runtime()->count();
    std::vector<int> ordinals = device == "cuda" ? std::vector<int>{0} : ordinals_of(device.substr(5));
    for (const int ordinal : ordinals) {
        if (ordinal < count) continue;
        throw Error(ErrorCode::device, fmt::format("--device {}: there is no CUDA device {}; this machine has {}",
                                                   device, ordinal, count));
    }
    return ordinals;
}

// Those that --device allows, asleep.
Devices allowed_devices(const ComputeOptions& options) {
    constexpr std::int64_t least_memory = std::int64_t{1} << 30;
    if (names_cuda(options.device)) return {named_devices(options.device), false};
    if (options.device == "cpu" || !cuda_problem().empty()) return {};
    if (options.device == "all") {
        std::vector<int> ordinals(static_cast<std::size_t>(core::device_runtime()->count()));
        std::iota(ordinals.begin(), ordinals.end(), 0);
        return {ordinals, false};
    }
    const std::int64_t memory = memory_cap(options);
    if (memory > 0 && memory < least_memory) return {};
    return {{0}, true};
}

}  // namespace

std::string check_device_name(const std::string& device) {
    if (device == "auto" || device == "cpu" || device == "all" || names_cuda(device)) return {};
    return fmt::format("'{}' is not a device; known: {}", device, device_names);
}

Devices choose_devices(const ComputeOptions& options) {
    Devices devices = allowed_devices(options);
    for (const int ordinal : devices.cuda) {
        try {
            core::device_runtime()->wake(ordinal);
        } catch (const Error& error) {
            if (!devices.left_to_us)
                throw Error(error.code(), fmt::format("--device {}: {}", options.device, error.what()));
            say(fmt::format("computing on the CPU, since cuda:{} does not work: {}", ordinal, error.what()));
            return {};
        }
    }
    return devices;
}

int choose_device(const ComputeOptions& options) {
    const Devices devices = choose_devices(options);
    return devices.cuda.empty() ? -1 : devices.cuda.front();
}

}  // namespace rowmax::cli
