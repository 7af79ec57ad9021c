// Plain C++, the width and tiling of AVX-512: float64. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const ProjectOps scalar16_project_ops;
extern const TileOps scalar16_f64_ops;
constinit const TileOps scalar16_f64_ops =
    doubles_only<ScalarVec<double, 8>, ScalarVec<double, 4>>(scalar16_project_ops);

}  // namespace rowmax::cpu
