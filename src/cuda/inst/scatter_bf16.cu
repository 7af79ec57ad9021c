#include "cuda/kernels/scatter_atomic.cuh"
#include "cuda/kernels/scatter_kernels.hpp"
#include "cuda/kernels/scatter_terms.cuh"

namespace rowmax::cuda {

const ScatterKernels scatter_bf16{ordered_sum_kernels<ScatterTerms<__nv_bfloat16, 1>>(),
                                  ordered_sum_kernels<ScatterTerms<__nv_bfloat16, 8>>(),
                                  atomic_scatter_kernels<__nv_bfloat16>()};

}  // namespace rowmax::cuda
