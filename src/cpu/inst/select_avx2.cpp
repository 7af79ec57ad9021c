// AVX2 + FMA: similarities that are kept. The one symbol that this file exports is its table.
#include "cpu/prim/vec_avx2.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/similarities.hpp"

namespace rowmax::cpu {

extern const SelectionOps avx2_selection_ops;
constinit const SelectionOps avx2_selection_ops = {select_ops<Avx2F32>(), select_ops<Avx2F64>()};

}  // namespace rowmax::cpu
