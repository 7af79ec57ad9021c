#include "cuda/kernels/split_rows.cuh"

namespace rowmax::cuda {

template KernelEntry split_rows_entry<64, false>();
template KernelEntry split_rows_entry<64, true>();

}  // namespace rowmax::cuda
