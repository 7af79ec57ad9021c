#include "cuda/kernels/portable.cuh"

namespace rowmax::cuda {

template KernelEntry portable_entry<TokenType::f8, false>();
template KernelEntry portable_entry<TokenType::f8, true>();

}  // namespace rowmax::cuda
