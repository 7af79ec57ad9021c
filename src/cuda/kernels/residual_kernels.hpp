// The compiled kernels of residual documents, as the host sees them.
#pragma once

#include <cstdint>

#include "cuda/kernels/backward_arguments.hpp"
#include "cuda/kernels/residual_arguments.hpp"

namespace rowmax::cuda {

struct ResidualEntry {
    const void* function = nullptr;
    int rows = 0;           ///< of queries, held at once
    int control_bytes = 0;  ///< shared memory besides the query rows
    int blocks_each = 0;    ///< thread blocks that may share a multiprocessor
};

struct ResidualEntries {
    ResidualEntry few;   ///< any number of dimensions
    ResidualEntry many;  ///< one chain
    ResidualEntry wide;  ///< any number of dimensions
    // 128 dimensions, float16 tables, no mask, bytes that can be copied 16 at a time:
    ResidualEntry halves;
    ResidualEntry halves_plain;  ///< float16 queries, scores alone
    ResidualEntry signs_plain;   ///< the same without centroids; of one bit
};

template <int Bits>
ResidualEntries residual_entries();
template <>
ResidualEntries residual_entries<1>();
template <>
ResidualEntries residual_entries<2>();
template <>
ResidualEntries residual_entries<4>();
template <>
ResidualEntries residual_entries<8>();

inline constexpr int residual_table_warps = 4;
extern const void* const residual_table_kernel;

struct ResidualGradientArguments {
    ResidualArguments residual;
    core::Gradients gradients;
    std::int64_t runs = 1;  ///< of a query token's pairs
    float* sums = nullptr;  ///< [query rows][runs][d]
};
extern const void* const residual_gradient_runs_kernel;
extern const void* const residual_gradient_sum_kernel;

}  // namespace rowmax::cuda
