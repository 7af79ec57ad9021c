// Plain C++, the width and tiling of AVX-512: what is multiplied as float32. The one symbol that this file exports is
// its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const ProjectOps scalar16_project_ops;
extern const TileOps scalar16_ops;
constinit const TileOps scalar16_ops =
    floats_only<ScalarVec<float, 16>, ScalarHalf, ScalarVec<float, 8>>(scalar16_project_ops);

}  // namespace rowmax::cpu
