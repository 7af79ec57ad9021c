#include "cuda/kernels/portable.cuh"

namespace rowmax::cuda {

template KernelEntry portable_entry<TokenType::f16, false>();
template KernelEntry portable_entry<TokenType::f16, true>();

}  // namespace rowmax::cuda
