// Plain C++, the width of AVX-512: rows times a matrix. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/project.hpp"

namespace rowmax::cpu {

extern const ProjectOps scalar16_project_ops;
constinit const ProjectOps scalar16_project_ops = project_ops<ScalarVec<float, 16>, ScalarVec<double, 8>>();

}  // namespace rowmax::cpu
