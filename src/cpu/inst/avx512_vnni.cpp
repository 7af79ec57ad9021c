// AVX-512 with VNNI: codes only. The one symbol that this file exports is its table.
#include "cpu/prim/vec_vnni.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const TileOps avx512_vnni_ops;
constinit const TileOps avx512_vnni_ops = codes_only(code_ops<Vnni512Words, Vnni256Words, VnniCodes>());

}  // namespace rowmax::cpu
