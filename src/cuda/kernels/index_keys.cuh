// The inverse of an index, before and after the sort by destination.
#pragma once

#include "cuda/kernels/index_arguments.hpp"
#include "cuda/kernels/lower_bound.cuh"

namespace rowmax::cuda {

__device__ __forceinline__ std::int64_t index_thread() {
    return std::int64_t{blockIdx.x} * index_threads + threadIdx.x;
}

/// One thread a source: the key of its destination.
__global__ void __launch_bounds__(index_threads) number_index(const __grid_constant__ NumberIndexArguments call) {
    const std::int64_t number = index_thread();
    const IndexKeys& to = call.to;
    if (number >= to.count()) return;
    const std::int64_t batch = to.batches == 1 ? 0 : core::detail::quotient(number, to.sources);
    const std::int64_t d = call.index.at(call.index.first(batch), number - batch * to.sources);
    const std::int64_t place = d >= 0 && d < to.destinations ? d : to.destinations;
    to.keys[number] = static_cast<std::uint32_t>(batch * (to.destinations + 1) + place);
    to.numbers[number] = static_cast<std::uint32_t>(number);
}

/// One thread a source: is it the first whose destination is none?
__global__ void __launch_bounds__(index_threads) check_index(const __grid_constant__ CheckIndexArguments call) {
    const std::int64_t number = index_thread();
    const std::int64_t sources = call.index.sources();
    if (number >= call.index.count() * sources) return;
    const std::int64_t batch = core::detail::quotient(number, sources);
    const std::int64_t d = call.index.at(call.index.first(batch), number - batch * sources);
    if (d < -1 || d >= call.destinations) atomicMin(call.bad, static_cast<unsigned long long>(number));
}

/// One thread a destination and batch: where its sources start.
__global__ void __launch_bounds__(index_threads) write_starts(const __grid_constant__ WriteGridArguments call) {
    const std::int64_t at = index_thread();
    const IndexKeys& sorted = call.sorted;
    if (at >= sorted.starts()) return;
    const std::int64_t batch = sorted.batches == 1 ? 0 : core::detail::quotient(at, sorted.destinations + 1);
    const std::uint32_t* keys = sorted.keys + batch * sorted.sources;
    call.row_ptr[at] = lower_bound(keys, sorted.sources, static_cast<std::uint32_t>(at));
}

/// One thread a source: its place in the grid.
__global__ void __launch_bounds__(index_threads) write_sources(const __grid_constant__ WriteGridArguments call) {
    const std::int64_t at = index_thread();
    const IndexKeys& sorted = call.sorted;
    if (at >= sorted.count()) return;
    const std::int64_t batch = sorted.batches == 1 ? 0 : core::detail::quotient(at, sorted.sources);
    const std::int64_t dropped = (batch + 1) * (sorted.destinations + 1) - 1;
    const std::int64_t source = std::int64_t{sorted.numbers[at]} - batch * sorted.sources;
    call.source[at] = std::int64_t{sorted.keys[at]} == dropped ? -1 : source;
}

/// One thread a destination and batch: are the sources that a caller's grid lists there those of the index?
__global__ void __launch_bounds__(index_threads) check_grid(const __grid_constant__ CheckGridArguments call) {
    const std::int64_t at = index_thread();
    const std::int64_t n = call.destinations;
    if (at >= call.index.count() * (n + 1)) return;
    const std::int64_t batch = core::detail::quotient(at, n + 1);
    const std::int64_t d = at - batch * (n + 1);
    const std::int64_t sources = call.index.sources();
    bool fits = call.row_ptr[at] == call.expected[at];
    if (fits && d < n) {
        const std::int64_t* source = call.source + batch * sources;
        const std::int64_t first = call.index.first(batch);
        std::int64_t before = -1;
        for (std::int64_t i = call.expected[at]; fits && i < call.expected[at + 1]; ++i) {
            fits = source[i] > before && source[i] < sources && call.index.at(first, source[i]) == d;
            before = source[i];
        }
    }
    if (!fits) atomicMin(call.bad, static_cast<unsigned long long>(batch));
}

}  // namespace rowmax::cuda
