#include "cuda/kernels/backward.cuh"

namespace rowmax::cuda {

const BackwardKernels backward_f32 = backward_kernels<TokenType::f32>();

}  // namespace rowmax::cuda
