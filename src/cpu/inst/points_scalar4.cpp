// Distances between points in plain C++, the width of SSE. The one symbol that this file exports is its table.
#include "cpu/prim/points_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_point_ops.hpp"

namespace rowmax::cpu {

extern const PointOps points_scalar4_ops;
constinit const PointOps points_scalar4_ops = make_point_ops<ScalarPoints<float, 4>, ScalarPoints<double, 2>>();

}  // namespace rowmax::cpu
