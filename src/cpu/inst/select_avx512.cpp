// AVX-512: similarities that are kept. The one symbol that this file exports is its table.
#include "cpu/prim/vec_avx2.hpp"
#include "cpu/prim/vec_avx512.hpp"
// Above: instructions. Below: what is made of them.
#include "cpu/kernels/similarities.hpp"

namespace rowmax::cpu {

extern const SelectionOps avx512_selection_ops;
constinit const SelectionOps avx512_selection_ops = {select_ops<Avx512F32>(), select_ops<Avx512F64>()};

}  // namespace rowmax::cpu
