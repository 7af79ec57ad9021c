// The compiled kernels of the backward pass, as the host sees them.
#pragma once

namespace rowmax::cuda {

/// Sums of rows by where their sources are found, and the norms of rows.
struct RowKernels {
    const void* by_pairs = nullptr;
    const void* by_grid = nullptr;
    const void* by_list = nullptr;
    const void* norms = nullptr;
};

/// Of one type of tokens.
struct BackwardKernels {
    RowKernels vector;  ///< rows at multiples of four elements
    RowKernels scalar;  ///< any
};
extern const BackwardKernels backward_f16;
extern const BackwardKernels backward_bf16;
extern const BackwardKernels backward_f32;

extern const void* const invert_index_kernel;

}  // namespace rowmax::cuda
