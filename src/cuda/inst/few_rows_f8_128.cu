#include "cuda/kernels/few_rows.cuh"

namespace rowmax::cuda {

template KernelEntry few_rows_entry<TokenType::f8, 128, false>();
template KernelEntry few_rows_entry<TokenType::f8, 128, true>();

}  // namespace rowmax::cuda
