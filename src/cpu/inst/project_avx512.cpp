// AVX-512: rows times a matrix. The one symbol that this file exports is its table.
#include "cpu/prim/vec_avx512.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/project.hpp"

namespace rowmax::cpu {

extern const ProjectOps avx512_project_ops;
constinit const ProjectOps avx512_project_ops = project_ops<Avx512F32, Avx512F64>();

}  // namespace rowmax::cpu
