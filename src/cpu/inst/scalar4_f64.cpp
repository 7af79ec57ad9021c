// Plain C++, the width of SSE: float64. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const ProjectOps scalar4_project_ops;
extern const TileOps scalar4_f64_ops;
constinit const TileOps scalar4_f64_ops = doubles_only<ScalarVec<double, 2>>(scalar4_project_ops);

}  // namespace rowmax::cpu
