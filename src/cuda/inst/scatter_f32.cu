#include "cuda/kernels/scatter_atomic.cuh"
#include "cuda/kernels/scatter_kernels.hpp"
#include "cuda/kernels/scatter_terms.cuh"

namespace rowmax::cuda {

const ScatterKernels scatter_f32{ordered_sum_kernels<ScatterTerms<float, 1>>(),
                                 ordered_sum_kernels<ScatterTerms<float, 4>>(), atomic_scatter_kernels<float>()};

}  // namespace rowmax::cuda
