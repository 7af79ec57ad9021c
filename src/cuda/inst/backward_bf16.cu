#include "cuda/kernels/backward.cuh"

namespace rowmax::cuda {

const BackwardKernels backward_bf16 = backward_kernels<TokenType::bf16>();

}  // namespace rowmax::cuda
