#include "cuda/kernels/scatter_atomic.cuh"
#include "cuda/kernels/scatter_kernels.hpp"
#include "cuda/kernels/scatter_terms.cuh"

namespace rowmax::cuda {

const ScatterKernels scatter_f64{ordered_sum_kernels<ScatterTerms<double, 1>>(),
                                 ordered_sum_kernels<ScatterTerms<double, 2>>(), atomic_scatter_kernels<double>()};

}  // namespace rowmax::cuda
