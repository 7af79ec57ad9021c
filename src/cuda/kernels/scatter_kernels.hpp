// The kernels of scatter_sum, for every type of values.
#pragma once

#include "cuda/kernels/ordered_sums_arguments.hpp"

namespace rowmax::cuda {

/// One channel a lane, and 16 bytes of them.
struct ScatterKernels {
    OrderedSumKernels single;
    OrderedSumKernels packed;
};

extern const ScatterKernels scatter_f16;
extern const ScatterKernels scatter_bf16;
extern const ScatterKernels scatter_f32;
extern const ScatterKernels scatter_f64;

}  // namespace rowmax::cuda
