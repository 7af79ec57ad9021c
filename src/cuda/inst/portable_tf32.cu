#include "cuda/kernels/portable.cuh"

namespace rowmax::cuda {

template KernelEntry portable_entry<TokenType::tf32, false>();
template KernelEntry portable_entry<TokenType::tf32, true>();

}  // namespace rowmax::cuda
