// Plain C++, the width of SSE: int8 codes. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const TileOps scalar4_codes_ops;
constinit const TileOps scalar4_codes_ops =
    codes_only(code_ops<ScalarWords<4, 2>, ScalarWords<4, 2>, ScalarCodes<2>>());

}  // namespace rowmax::cpu
