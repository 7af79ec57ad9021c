#include "cuda/kernels/wide_rows.cuh"

namespace rowmax::cuda {

template KernelEntry wide_rows_entry<TokenType::bf16, false>();
template KernelEntry wide_rows_entry<TokenType::bf16, true>();

}  // namespace rowmax::cuda
