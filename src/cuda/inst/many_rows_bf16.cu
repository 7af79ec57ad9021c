#include "cuda/kernels/many_rows.cuh"
#include "cuda/kernels/normalized_rows.cuh"

namespace rowmax::cuda {

template KernelEntry many_rows_entry<TokenType::bf16, false>();
template KernelEntry normalized_rows_entry<TokenType::bf16, false>();

}  // namespace rowmax::cuda
