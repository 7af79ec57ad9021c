#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/portable.cuh"

namespace rowmax::cuda {

namespace {

template <bool Indexed>
KernelEntry entry() {
    return {reinterpret_cast<const void*>(&portable<TokenType::bf16, Indexed>),
            portable_rows,
            Indexed,
            0,
            1,
            portable_threads};
}

}  // namespace

const KernelEntry portable_bf16[2] = {entry<false>(), entry<true>()};

}  // namespace rowmax::cuda
