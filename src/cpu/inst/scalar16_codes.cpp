// Plain C++, the width and tiling of AVX-512: int8 codes. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const TileOps scalar16_codes_ops;
constinit const TileOps scalar16_codes_ops =
    codes_only(code_ops<ScalarWords<16, 4>, ScalarWords<8, 4>, ScalarCodes<4>>());

}  // namespace rowmax::cpu
