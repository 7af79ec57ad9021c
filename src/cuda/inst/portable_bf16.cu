#include "cuda/kernels/portable.cuh"

namespace rowmax::cuda {

template KernelEntry portable_entry<TokenType::bf16, false>();
template KernelEntry portable_entry<TokenType::bf16, true>();

}  // namespace rowmax::cuda
