// The quantisers that are compiled in, as the host sees them.
#pragma once

#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

inline constexpr int quantize_rows_of_block = 8;  ///< a warp each

struct QuantizeKernels {
    const void* rows = nullptr;
    const void* groups = nullptr;
    const void* find_largest = nullptr;
    const void* largest_to_scale = nullptr;
    const void* by_scale = nullptr;
};

template <TokenType Type, bool Float8>
QuantizeKernels quantize_kernels();

}  // namespace rowmax::cuda
