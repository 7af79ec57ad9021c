// AVX2 + FMA: rows times a matrix. The one symbol that this file exports is its table.
#include "cpu/prim/vec_avx2.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/project.hpp"

namespace rowmax::cpu {

extern const ProjectOps avx2_project_ops;
constinit const ProjectOps avx2_project_ops = project_ops<Avx2F32, Avx2F64>();

}  // namespace rowmax::cpu
