// Plain C++, the width of SSE: what is multiplied as float32. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const ProjectOps scalar4_project_ops;
extern const TileOps scalar4_ops;
constinit const TileOps scalar4_ops = floats_only<ScalarVec<float, 4>, ScalarHalf>(scalar4_project_ops);

}  // namespace rowmax::cpu
