// --device: what it names on this machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/shared.hpp"

namespace rowmax::cli {

/// Where to compute.
struct Devices {
    std::vector<int> cuda;    ///< ordinals; none: the CPU
    bool left_to_us = false;  ///< the CPU will do where those cannot
};

/// What is wrong with the text, or nothing.
std::string check_device_name(const std::string& device);
/// For the help.
inline constexpr std::string_view device_names = "auto, cpu, cuda, cuda:N (or cuda:N,M) or all";

/// - auto       the first CUDA device, if one can be used, else the CPU. The CPU too when --memory is below a GiB, of
///              which the driver alone takes much;
/// - cpu
/// - cuda, cuda:N, cuda:N,M   these devices; one named twice does two shares. Throws Error(device) naming it when it is
///              not there;
/// - all        every CUDA device, or the CPU where there are none.
///
/// The devices are awake afterwards, so that what the driver takes for itself is taken.
Devices choose_devices(const ComputeOptions& options);

/// For commands that compute on one device: the first of them, -1 for the CPU.
int choose_device(const ComputeOptions& options);

}  // namespace rowmax::cli
