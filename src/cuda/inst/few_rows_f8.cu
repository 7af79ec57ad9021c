#include "cuda/kernels/few_rows.cuh"

namespace rowmax::cuda {

template KernelEntry few_rows_entry<TokenType::f8, 32, false>();
template KernelEntry few_rows_entry<TokenType::f8, 32, true>();
template KernelEntry few_rows_entry<TokenType::f8, 64, false>();
template KernelEntry few_rows_entry<TokenType::f8, 64, true>();

}  // namespace rowmax::cuda
