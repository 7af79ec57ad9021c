#include "cuda/kernels/projected_rows.cuh"

namespace rowmax::cuda {

template ProjectedKernels projected_kernels<TokenType::bf16>();

}  // namespace rowmax::cuda
