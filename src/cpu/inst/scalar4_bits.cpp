// Plain C++, the width of SSE: sign bits. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const TileOps scalar4_bits_ops;
constinit const TileOps scalar4_bits_ops = bits_only(code_ops<ScalarBits<4>, ScalarBits<4>, BitCodes>());

}  // namespace rowmax::cpu
