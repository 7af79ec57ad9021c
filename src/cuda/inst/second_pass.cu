#include "cuda/kernels/second_pass.cuh"

#include "cuda/kernels/kernel_sets.hpp"

namespace rowmax::cuda {

const SecondPassKernels second_pass_kernels = {reinterpret_cast<const void*>(&add_groups),
                                               reinterpret_cast<const void*>(&join_parts)};

}  // namespace rowmax::cuda
