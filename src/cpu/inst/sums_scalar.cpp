// Plain C++: sums of rows. The one symbol that this file exports is its table.
#include "cpu/prim/vec_scalar.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/row_sums.hpp"

namespace rowmax::cpu {

extern const RowSumOps scalar_sum_ops;
constinit const RowSumOps scalar_sum_ops = make_row_sums<ScalarVec<float, 4>, ScalarVec<double, 2>, ScalarHalf>();

}  // namespace rowmax::cpu
