// Sums of ordered runs (kernels/ordered_sums.cuh), as the host plans and queues them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/params.hpp"
#include "cuda/kernels/ordered_sums_arguments.hpp"
#include "cuda/scratch_layout.hpp"

namespace rowmax::cuda {

/// Scratch memory for rows of several runs.
struct SharedRowsLayout {
    std::size_t counts = 0;
    std::size_t runs = 0;
    std::size_t rows = 0;
    std::size_t parts = 0;
    std::int64_t capacity = 0;
};

SharedRowsLayout layout_of_shared_rows(ScratchLayout& scratch, std::int64_t terms, std::int64_t channels,
                                       std::size_t sum_bytes);

/// The plan of a call, whose lists are empty once the stream comes here.
OrderedSums plan_sums(const SharedRowsLayout& layout, std::byte* memory, std::int64_t rows, std::int64_t channels,
                      int width, const core::Place& place);

/// Queues the three kernels. `arguments`: what they are given, with `sums` in it; `terms` of all rows.
void run_sums(const OrderedSumKernels& kernels, const OrderedSums& sums, std::int64_t terms, const void* arguments,
              const core::Place& place);

void load_sums(const OrderedSumKernels& kernels);

}  // namespace rowmax::cuda
