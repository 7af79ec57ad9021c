#include "cuda/kernels/split_rows.cuh"

namespace rowmax::cuda {

template KernelEntry split_rows_entry<32, false>();
template KernelEntry split_rows_entry<32, true>();

}  // namespace rowmax::cuda
