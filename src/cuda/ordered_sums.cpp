#include "cuda/ordered_sums.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

std::int64_t ordered_sum_blocks(std::int64_t threads) {
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    const std::int64_t blocks = (threads + ordered_sum_threads - 1) / ordered_sum_threads;
    if (blocks <= most) return blocks;
    throw Error(ErrorCode::not_implemented, fmt::format("sums by {} thread blocks, more than 2^31", blocks));
}

}  // namespace

SharedRowsLayout layout_of_shared_rows(ScratchLayout& scratch, std::int64_t terms, std::int64_t channels,
                                       std::size_t sum_bytes) {
    SharedRowsLayout layout;
    layout.capacity = shared_runs_most(terms);
    layout.counts = scratch.take_array<unsigned long long>(2);
    layout.runs = scratch.take_array<SharedRun>(layout.capacity);
    layout.rows = scratch.take_array<SharedRow>(layout.capacity);
    layout.parts = scratch.take(static_cast<std::size_t>(layout.capacity * channels) * sum_bytes);
    return layout;
}

OrderedSums plan_sums(const SharedRowsLayout& layout, std::byte* memory, std::int64_t rows, std::int64_t channels,
                      int width, const core::Place& place) {
    OrderedSums sums;
    sums.rows = rows;
    sums.channels = channels;
    while (sums.lane_bits < 5 && (std::int64_t{width} << sums.lane_bits) < channels) ++sums.lane_bits;
    sums.shared.counts = part_at<unsigned long long>(memory, layout.counts);
    sums.shared.runs = part_at<SharedRun>(memory, layout.runs);
    sums.shared.rows = part_at<SharedRow>(memory, layout.rows);
    sums.shared.parts = memory + layout.parts;
    sums.shared.capacity = layout.capacity;
    if (layout.capacity <= shared_runs_most(terms_per_run - 1)) return sums;  // no row can have two runs
    const std::size_t bytes =
        layout.runs - layout.counts + static_cast<std::size_t>(layout.capacity) * sizeof(SharedRun);
    check(cudaMemsetAsync(sums.shared.counts, 0, bytes, static_cast<cudaStream_t>(place.stream)), "cudaMemsetAsync");
    return sums;
}

void run_sums(const OrderedSumKernels& kernels, const OrderedSums& sums, std::int64_t terms, const void* arguments,
              const core::Place& place) {
    constexpr std::int64_t blocks_a_processor = 8;
    launch(kernels.rows, {ordered_sum_blocks(sums.rows << sums.lane_bits), ordered_sum_threads}, place, arguments);
    if (terms <= terms_per_run) return;
    const std::int64_t most = device_info(place.ordinal).processors * blocks_a_processor;
    const std::int64_t runs = std::min(most, ordered_sum_blocks(sums.shared.capacity << sums.lane_bits));
    launch(kernels.runs, {runs, ordered_sum_threads}, place, arguments);
    launch(kernels.join, {std::min(most, sums.shared.capacity), ordered_sum_threads}, place, arguments);
}

void load_sums(const OrderedSumKernels& kernels) {
    for (const void* kernel : {kernels.rows, kernels.runs, kernels.join}) load_kernel(kernel);
}

}  // namespace rowmax::cuda
