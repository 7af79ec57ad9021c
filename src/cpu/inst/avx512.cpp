// AVX-512. The one symbol that this file exports is its table.
#include "cpu/prim/vec_avx2.hpp"
#include "cpu/prim/vec_avx512.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/make_ops.hpp"

namespace rowmax::cpu {

extern const ProjectOps avx512_project_ops;
extern const TileOps avx512_ops;
// Few query rows wait for memory; 16 document rows side by side ask for it in larger gulps and wait longer than 8.
constinit const TileOps avx512_ops =
    make_ops<Avx512F32, Avx512F64, Avx512Half, Avx2F32, Avx2F64, Avx2Half>({}, {}, avx512_project_ops);

}  // namespace rowmax::cpu
