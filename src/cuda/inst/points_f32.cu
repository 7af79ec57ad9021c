#include "cuda/kernels/make_point_kernels.cuh"

namespace rowmax::cuda {

const PointKernels point_kernels_f32 = make_point_kernels<float>();

}  // namespace rowmax::cuda
