#include "cuda/kernels/wide_rows.cuh"

namespace rowmax::cuda {

template KernelEntry wide_rows_entry<TokenType::f16, false>();
template KernelEntry wide_rows_entry<TokenType::f16, true>();

}  // namespace rowmax::cuda
