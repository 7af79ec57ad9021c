#include "cuda/kernels/make_point_tree_kernels.cuh"

namespace rowmax::cuda {

const PointTreeKernels point_tree_kernels_f32 = make_point_tree_kernels<float>();

}  // namespace rowmax::cuda
