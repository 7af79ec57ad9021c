#include "cuda/kernels/many_rows.cuh"

namespace rowmax::cuda {

template KernelEntry many_rows_entry<TokenType::f16, true, false>();
template KernelEntry many_rows_entry<TokenType::f16, true, true>();

}  // namespace rowmax::cuda
