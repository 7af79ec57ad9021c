#include "cuda/kernels/invert_index.cuh"

#include "cuda/kernels/backward_kernels.hpp"

namespace rowmax::cuda {

const void* const invert_index_kernel = reinterpret_cast<const void*>(&invert_index);

}  // namespace rowmax::cuda
