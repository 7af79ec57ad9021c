#include "cuda/kernels/many_rows.cuh"

namespace rowmax::cuda {

template KernelEntry many_rows_entry<TokenType::f8, false>();

}  // namespace rowmax::cuda
