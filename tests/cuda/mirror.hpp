// A problem whose arrays lie on the host, moved to the GPU.
#pragma once

#include "core/params.hpp"
#include "cuda/device_memory.hpp"

namespace rowmax::test {

core::Params mirror(const core::Params& host, DeviceMemory& memory);

}  // namespace rowmax::test
