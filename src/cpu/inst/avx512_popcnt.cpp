// AVX-512 with VPOPCNTDQ: sign bits only. The one symbol that this file exports is its table.
#include "cpu/prim/vec_popcnt.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const TileOps avx512_popcnt_ops;
constinit const TileOps avx512_popcnt_ops = bits_only(code_ops<Popcnt512Bits, Popcnt256Bits, BitCodes>());

}  // namespace rowmax::cpu
