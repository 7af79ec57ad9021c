#include "cuda/kernels/scatter_atomic.cuh"
#include "cuda/kernels/scatter_kernels.hpp"
#include "cuda/kernels/scatter_terms.cuh"

namespace rowmax::cuda {

const ScatterKernels scatter_f16{ordered_sum_kernels<ScatterTerms<__half, 1>>(),
                                 ordered_sum_kernels<ScatterTerms<__half, 8>>(), atomic_scatter_kernels<__half>()};

}  // namespace rowmax::cuda
