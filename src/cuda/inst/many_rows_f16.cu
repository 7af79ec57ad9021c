#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/many_rows.cuh"

namespace rowmax::cuda {

namespace {

template <bool Indexed>
KernelEntry entry() {
    return {reinterpret_cast<const void*>(&many_rows<TokenType::f16, Indexed>),
            many_rows_block,
            Indexed,
            static_cast<int>(sizeof(ManyRowsControl)),
            1,
            tiled_threads(many_rows_groups)};
}

}  // namespace

const KernelEntry many_rows_f16[2] = {entry<false>(), entry<true>()};

}  // namespace rowmax::cuda
