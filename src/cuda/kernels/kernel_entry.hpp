// A compiled kernel, as the host sees it.
#pragma once

#include "core/params.hpp"
#include "cuda/kernels/plan.hpp"

namespace rowmax::cuda {

struct KernelEntry {
    const void* function = nullptr;
    int rows = 0;           ///< query rows of a block
    bool indexed = false;   ///< keeps winning tokens
    int control_bytes = 0;  ///< kernels for Hopper: shared memory besides the slots of both sides
    int rings = 1;          ///< of document tiles, each with a warpgroup or two that read it
    int threads = 0;
};

/// The kernels of one row of the table: with and without winning tokens, by rising number of rows.
struct KernelSet {
    const KernelEntry* entries = nullptr;
    int count = 0;
};

}  // namespace rowmax::cuda
