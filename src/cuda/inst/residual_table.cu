#include "cuda/kernels/residual_table.cuh"

namespace rowmax::cuda {

const void* const residual_table_kernel = reinterpret_cast<const void*>(&residual_table);

}  // namespace rowmax::cuda
