// Distances between points, AVX2 + FMA. The one symbol that this file exports is its table.
#include "cpu/prim/points_avx2.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_point_ops.hpp"

namespace rowmax::cpu {

extern const PointOps points_avx2_ops;
constinit const PointOps points_avx2_ops = make_point_ops<Avx2PointsF32, Avx2PointsF64>();

}  // namespace rowmax::cpu
