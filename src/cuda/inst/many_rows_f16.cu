#include "cuda/kernels/many_rows.cuh"

namespace rowmax::cuda {

template KernelEntry many_rows_entry<TokenType::f16, false, false>();
template KernelEntry many_rows_entry<TokenType::f16, false, true>();

}  // namespace rowmax::cuda
