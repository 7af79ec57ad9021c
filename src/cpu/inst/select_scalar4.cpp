// Plain C++, the width of SSE: similarities that are kept. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/similarities.hpp"

namespace rowmax::cpu {

extern const SelectionOps scalar4_selection_ops;
constinit const SelectionOps scalar4_selection_ops = {select_ops<ScalarVec<float, 4>>(),
                                                      select_ops<ScalarVec<double, 2>>()};

}  // namespace rowmax::cpu
