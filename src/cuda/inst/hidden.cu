#include "cuda/kernels/chosen_rows.cuh"
#include "cuda/kernels/hidden_winners.cuh"
#include "cuda/kernels/projected_norms.cuh"

namespace rowmax::cuda {

const HiddenKernels hidden_kernels{
    reinterpret_cast<const void*>(&hidden_winners),
    reinterpret_cast<const void*>(&move_rows<false>),
    reinterpret_cast<const void*>(&move_rows<true>),
    projection_kernels<__half>(),
    projection_kernels<__nv_bfloat16>(),
    projection_kernels<float>(),
};

}  // namespace rowmax::cuda
