// scatter_sum without an order: every source adds its values to the row of its destination by atomic additions. Nothing
// is sorted; sums have other bits on every run, and sources of one destination wait for each other.
//
//   add_sources    2^b lanes a source, each with V neighbouring channels: to numbers of the type of sums
//   round_sums     those as numbers of the type of values, where that is another
#pragma once

#include "cuda/kernels/index_arguments.hpp"
#include "cuda/kernels/scatter_kernels.hpp"
#include "cuda/kernels/stored_numbers.cuh"
#include "cuda/prim/atomic_add.cuh"

namespace rowmax::cuda {

template <class Stored, int V>
__global__ void __launch_bounds__(index_threads) add_sources(const __grid_constant__ AtomicScatterArguments call) {
    using Sum = SumOf<Stored>;
    const std::int64_t thread = std::int64_t{blockIdx.x} * index_threads + threadIdx.x;
    const std::int64_t number = thread >> call.lane_bits;
    const std::int64_t lane = thread & ((1 << call.lane_bits) - 1);
    const std::int64_t sources = call.index.sources();
    if (number >= call.index.count() * sources) return;
    const bool single = call.index.count() == 1;  // which needs none of the divisions
    const std::int64_t batch = single ? 0 : core::detail::quotient(number, sources);
    const std::int64_t source = number - batch * sources;
    const std::int64_t d = call.index.at(single ? 0 : call.index.first(batch), source);
    if (d < 0 || d >= call.destinations) return;
    const Stored* from = static_cast<const Stored*>(call.values) + (single ? 0 : call.steps.first(batch));
    from += source * call.stride;
    Sum* to = static_cast<Sum*>(call.sums) + (batch * call.destinations + d) * call.channels;
    const std::int64_t step = std::int64_t{V} << call.lane_bits;
    for (std::int64_t channel = lane * V; channel < call.channels; channel += step) {
        const auto term = *reinterpret_cast<const Pack<Stored, V>*>(from + channel);
        if constexpr (V % 4 == 0 && sizeof(Sum) == sizeof(float)) {
#pragma unroll
            for (int v = 0; v < V; v += 4) {
                const float four[4] = {widened(term.at[v]), widened(term.at[v + 1]), widened(term.at[v + 2]),
                                       widened(term.at[v + 3])};
                add_four(to + channel + v, four);
            }
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v) atomicAdd(to + channel + v, widened(term.at[v]));
        }
    }
}

/// One thread a number.
template <class Stored>
__global__ void __launch_bounds__(index_threads) round_sums(const __grid_constant__ RoundSumsArguments call) {
    const std::int64_t i = std::int64_t{blockIdx.x} * index_threads + threadIdx.x;
    if (i >= call.count) return;
    static_cast<Stored*>(call.out)[i] = rounded<Stored>(static_cast<const SumOf<Stored>*>(call.sums)[i]);
}

template <class Stored>
AtomicScatterKernels atomic_scatter_kernels() {
    constexpr bool widens = sizeof(Stored) < sizeof(SumOf<Stored>);
    return {reinterpret_cast<const void*>(&add_sources<Stored, 1>),
            reinterpret_cast<const void*>(&add_sources<Stored, 16 / sizeof(Stored)>),
            widens ? reinterpret_cast<const void*>(&round_sums<Stored>) : nullptr};
}

}  // namespace rowmax::cuda
