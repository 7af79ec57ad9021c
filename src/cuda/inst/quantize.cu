#include "cuda/kernels/quantize.cuh"
#include "cuda/kernels/quantize_kernels.hpp"

namespace rowmax::cuda {

template <TokenType Type, bool Float8>
QuantizeKernels quantize_kernels() {
    static_assert(quantize_rows_of_block == quantize_warps);
    return {reinterpret_cast<const void*>(&quantize_rows<Type, Float8>),
            reinterpret_cast<const void*>(&quantize_groups<Type, Float8>),
            reinterpret_cast<const void*>(&find_largest<Type, Float8>),
            reinterpret_cast<const void*>(&largest_to_scale<Float8>),
            reinterpret_cast<const void*>(&quantize_by_scale<Type, Float8>)};
}

template QuantizeKernels quantize_kernels<TokenType::f16, false>();
template QuantizeKernels quantize_kernels<TokenType::f16, true>();
template QuantizeKernels quantize_kernels<TokenType::bf16, false>();
template QuantizeKernels quantize_kernels<TokenType::bf16, true>();
template QuantizeKernels quantize_kernels<TokenType::f32, false>();
template QuantizeKernels quantize_kernels<TokenType::f32, true>();

}  // namespace rowmax::cuda
