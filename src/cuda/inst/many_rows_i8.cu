#include "cuda/kernels/many_rows.cuh"

namespace rowmax::cuda {

template KernelEntry many_rows_entry<TokenType::i8, false>();

}  // namespace rowmax::cuda
