// The kernels for hidden states that are compiled in, as the host sees them.
#pragma once

#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

struct ProjectedKernels {
    const void* score = nullptr;   ///< maxima of each tile, for join_parts
    const void* tokens = nullptr;  ///< writes the tokens instead
    int threads = 0;
    int control_bytes = 0;  ///< shared memory besides slots and query rows
};

/// inst/ instantiates them.
template <TokenType Type>
ProjectedKernels projected_kernels();

}  // namespace rowmax::cuda
