// AVX2 + F16C: sums of rows. The one symbol that this file exports is its table.
#include "cpu/prim/vec_avx2.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/row_sums.hpp"

namespace rowmax::cpu {

extern const RowSumOps avx2_sum_ops;
constinit const RowSumOps avx2_sum_ops = make_row_sums<Avx2F32, Avx2F64, Avx2Half>();

}  // namespace rowmax::cpu
