#include "cuda/kernels/residual_gradient.cuh"

namespace rowmax::cuda {

const void* const residual_gradient_runs_kernel = reinterpret_cast<const void*>(&residual_gradient_runs);
const void* const residual_gradient_sum_kernel = reinterpret_cast<const void*>(&residual_gradient_sum);

}  // namespace rowmax::cuda
