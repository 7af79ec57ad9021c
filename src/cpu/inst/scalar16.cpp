// Plain C++, the width of AVX-512: its tiling, on any machine. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const ProjectOps scalar16_project_ops;
extern const TileOps scalar16_ops;
constinit const TileOps scalar16_ops =
    make_ops<ScalarVec<float, 16>, ScalarVec<double, 8>, ScalarHalf, ScalarVec<float, 8>, ScalarVec<double, 4>>(
        code_ops<ScalarWords<16, 4>, ScalarWords<8, 4>, ScalarCodes<4>>(),
        code_ops<ScalarBits<16>, ScalarBits<8>, BitCodes>(), scalar16_project_ops);

}  // namespace rowmax::cpu
