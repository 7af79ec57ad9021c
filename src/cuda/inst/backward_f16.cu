#include "cuda/kernels/backward.cuh"

namespace rowmax::cuda {

const BackwardKernels backward_f16 = backward_kernels<TokenType::f16>();

}  // namespace rowmax::cuda
