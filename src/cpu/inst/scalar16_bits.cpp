// Plain C++, the width and tiling of AVX-512: sign bits. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const TileOps scalar16_bits_ops;
constinit const TileOps scalar16_bits_ops = bits_only(code_ops<ScalarBits<16>, ScalarBits<8>, BitCodes>());

}  // namespace rowmax::cpu
