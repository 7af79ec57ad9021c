#include "cuda/kernels/make_point_tree_kernels.cuh"

namespace rowmax::cuda {

const PointTreeKernels point_tree_kernels_f64 = make_point_tree_kernels<double>();

}  // namespace rowmax::cuda
