// Distances between points, AVX-512. The one symbol that this file exports is its table.
#include "cpu/prim/points_avx512.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_point_ops.hpp"

namespace rowmax::cpu {

extern const PointOps points_avx512_ops;
constinit const PointOps points_avx512_ops = make_point_ops<Avx512PointsF32, Avx512PointsF64>();

}  // namespace rowmax::cpu
