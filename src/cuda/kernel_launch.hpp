// Launching a kernel that takes one structure of arguments.
#pragma once

#include <cstdint>

#include "core/params.hpp"

namespace rowmax::cuda {

struct LaunchShape {
    std::int64_t grid = 1;
    int threads = 1;
    int shared_bytes = 0;
    bool early = false;  ///< may start while the kernel before it finishes: it does wait_for_earlier_kernels() itself
};

/// Loads a kernel, which may use so much dynamic shared memory, so that its first launch does not wait for that.
void load_kernel(const void* function, int shared_bytes = 0);

void launch(const void* function, const LaunchShape& shape, const core::Place& place, const void* arguments);

}  // namespace rowmax::cuda
