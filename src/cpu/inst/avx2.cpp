// AVX2 + FMA + F16C. The one symbol that this file exports is its table.
#include "cpu/prim/vec_avx2.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const ProjectOps avx2_project_ops;
extern const TileOps avx2_ops;
constinit const TileOps avx2_ops = make_ops<Avx2F32, Avx2F64, Avx2Half>(
    code_ops<Avx2Words, Avx2Words, Avx2Codes>(), code_ops<Avx2Bits, Avx2Bits, BitCodes>(), avx2_project_ops);

}  // namespace rowmax::cpu
