// AVX-512. The one symbol that this file exports is its table.
#include "cpu/prim/vec_avx512.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const TileOps avx512_ops;
constinit const TileOps avx512_ops = make_ops<Avx512F32, Avx512F64, Avx512Half>();

}  // namespace rowmax::cpu
