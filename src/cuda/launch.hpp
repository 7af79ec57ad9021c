// From a problem to a launch: the plan, the scratch memory, the tensor maps.
#pragma once

#include <cstddef>
#include <string>

#include "core/params.hpp"
#include "cuda/device.hpp"
#include "cuda/kernels/kernel_entry.hpp"

namespace rowmax::cuda {

/// Bytes of scratch memory of a call with kernels of this set.
std::size_t workspace(const KernelSet& kernels, const core::Params& params, const core::Outputs& outputs);

void score_tiled(const KernelSet& kernels, const core::Params& params, const core::Outputs& outputs);
void score_portable(const KernelSet& kernels, const core::Params& params, const core::Outputs& outputs);

/// Empty when the rings fit this device, else what is in the way.
std::string refuse_tiled(const KernelSet& kernels, const core::Params& params);

/// Loads every kernel that the current device can run, so that no later call waits for that.
void load_kernels(const DeviceInfo& info);

}  // namespace rowmax::cuda
