#include "cuda/kernels/index_keys.cuh"

namespace rowmax::cuda {

const IndexKernels index_kernels{
    reinterpret_cast<const void*>(&number_index), reinterpret_cast<const void*>(&check_index),
    reinterpret_cast<const void*>(&write_starts), reinterpret_cast<const void*>(&write_sources),
    reinterpret_cast<const void*>(&check_grid)};

}  // namespace rowmax::cuda
