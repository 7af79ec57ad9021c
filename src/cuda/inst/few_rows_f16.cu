#include "cuda/kernels/few_rows.cuh"
#include "cuda/kernels/kernel_sets.hpp"

namespace rowmax::cuda {

namespace {

template <int Rows, bool Indexed>
KernelEntry entry() {
    return {reinterpret_cast<const void*>(&few_rows<TokenType::f16, Rows, Indexed>),
            Rows,
            Indexed,
            static_cast<int>(sizeof(FewRowsControl<Rows, Indexed>)),
            FewRowsControl<Rows, Indexed>::groups,
            tiled_threads(FewRowsControl<Rows, Indexed>::groups)};
}

}  // namespace

const KernelEntry few_rows_f16[6] = {entry<32, false>(), entry<32, true>(),   entry<64, false>(),
                                     entry<64, true>(),  entry<128, false>(), entry<128, true>()};

}  // namespace rowmax::cuda
