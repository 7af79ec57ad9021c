// The kernels of the backward pass for one type of tokens.
#pragma once

#include "cuda/kernels/backward_kernels.hpp"
#include "cuda/kernels/inverse_norms.cuh"
#include "cuda/kernels/row_sums.cuh"

namespace rowmax::cuda {

template <TokenType Type, bool Vector>
RowKernels row_kernels() {
    return {reinterpret_cast<const void*>(&row_sums<Type, Vector, PairSources>),
            reinterpret_cast<const void*>(&row_sums<Type, Vector, GridSources>),
            reinterpret_cast<const void*>(&row_sums<Type, Vector, ListedSources>),
            reinterpret_cast<const void*>(&inverse_norms<Type, Vector>)};
}

template <TokenType Type>
BackwardKernels backward_kernels() {
    return {row_kernels<Type, true>(), row_kernels<Type, false>()};
}

}  // namespace rowmax::cuda
