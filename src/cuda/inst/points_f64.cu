#include "cuda/kernels/make_point_kernels.cuh"

namespace rowmax::cuda {

const PointKernels point_kernels_f64 = make_point_kernels<double>();

}  // namespace rowmax::cuda
