// AVX-512: sums of rows. The one symbol that this file exports is its table.
#include "cpu/prim/vec_avx2.hpp"
#include "cpu/prim/vec_avx512.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/row_sums.hpp"

namespace rowmax::cpu {

extern const RowSumOps avx512_sum_ops;
constinit const RowSumOps avx512_sum_ops = make_row_sums<Avx512F32, Avx512F64, Avx512Half>();

}  // namespace rowmax::cpu
