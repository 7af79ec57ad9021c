// Plain C++, the width of AVX-512: similarities that are kept. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/similarities.hpp"

namespace rowmax::cpu {

extern const SelectionOps scalar16_selection_ops;
constinit const SelectionOps scalar16_selection_ops = {select_ops<ScalarVec<float, 16>>(),
                                                       select_ops<ScalarVec<double, 8>>()};

}  // namespace rowmax::cpu
