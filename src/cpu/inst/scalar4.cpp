// Plain C++, the width of SSE. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const ProjectOps scalar4_project_ops;
extern const TileOps scalar4_ops;
constinit const TileOps scalar4_ops = make_ops<ScalarVec<float, 4>, ScalarVec<double, 2>, ScalarHalf>(
    code_ops<ScalarWords<4, 2>, ScalarWords<4, 2>, ScalarCodes<2>>(),
    code_ops<ScalarBits<4>, ScalarBits<4>, BitCodes>(), scalar4_project_ops);

}  // namespace rowmax::cpu
