// The kernels of scatter_sum, for every type of values.
#pragma once

#include "cuda/kernels/ordered_sums_arguments.hpp"

namespace rowmax::cuda {

/// The kernels of scatter_atomic.cuh for one type of values.
struct AtomicScatterKernels {
    const void* single = nullptr;
    const void* packed = nullptr;
    const void* round = nullptr;  ///< null: sums are of the type of values
};

/// One channel a lane, and 16 bytes of them.
struct ScatterKernels {
    OrderedSumKernels single;
    OrderedSumKernels packed;
    AtomicScatterKernels atomic;
};

extern const ScatterKernels scatter_f16;
extern const ScatterKernels scatter_bf16;
extern const ScatterKernels scatter_f32;
extern const ScatterKernels scatter_f64;

}  // namespace rowmax::cuda
