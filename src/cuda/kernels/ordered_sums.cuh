// Sums of terms that are named by a sorted list, for every row of a result; the same bits on every run.
//
//   sum_rows     2^b lanes a row, each with V neighbouring channels: rows of one run are added up and written;
//                those of several go on a list (SharedRows)
//   sum_runs     the runs on that list, 2^b lanes each
//   join_runs    a thread block a row on it: its runs' sums, in order
//
// A Terms type says what is added. It has
//   Sum, Arguments (with an OrderedSums `sums`), width (V)
//   Place                      a row's channels as its functions want them; at(row, channel) makes one
//   Term                       what load(place, i) reads of term i; add(place, term, sum) adds it
//   range(row)                 the row's terms
//   start(place, sum)          what the row's sum begins with
//   finish(place, sum)         writes it
#pragma once

#include <cstdint>

#include "cuda/kernels/ordered_sums_arguments.hpp"

namespace rowmax::cuda {

struct TermRange {
    std::int64_t begin;
    std::int64_t end;
};

// Additions and products that are never joined into one instruction with one rounding.
__device__ __forceinline__ float add_rounded(float a, float b) {
    return __fadd_rn(a, b);
}
__device__ __forceinline__ double add_rounded(double a, double b) {
    return __dadd_rn(a, b);
}
__device__ __forceinline__ float product_rounded(float a, float b) {
    return __fmul_rn(a, b);
}
__device__ __forceinline__ double product_rounded(double a, double b) {
    return __dmul_rn(a, b);
}

/// Terms [begin, end) of one run, from zero. Several are read before they are added.
template <class Terms>
__device__ __forceinline__ void sum_run(const Terms& terms, const typename Terms::Place& place, std::int64_t begin,
                                        std::int64_t end, typename Terms::Sum (&sum)[Terms::width]) {
    constexpr int ahead = Terms::width > 2 ? 4 : 8;
#pragma unroll
    for (int v = 0; v < Terms::width; ++v) sum[v] = 0;
    std::int64_t i = begin;
    for (; i + ahead <= end; i += ahead) {
        typename Terms::Term term[ahead];
#pragma unroll
        for (int u = 0; u < ahead; ++u) term[u] = terms.load(place, i + u);
#pragma unroll
        for (int u = 0; u < ahead; ++u) terms.add(place, term[u], sum);
    }
    for (; i < end; ++i) terms.add(place, terms.load(place, i), sum);
}

/// Puts a row on the list, by its lanes together; false where it is full, as it may be for a grid that lies.
__device__ __forceinline__ bool share_row(const OrderedSums& sums, std::int64_t row, const TermRange& range, int lane) {
    const int width = 1 << sums.lane_bits;
    const std::int64_t runs = (range.end - range.begin + terms_per_run - 1) / terms_per_run;
    const unsigned first_lane = threadIdx.x % 32 / static_cast<unsigned>(width) * static_cast<unsigned>(width);
    const unsigned mask = (width == 32 ? 0xffffffffU : (1U << width) - 1) << first_lane;
    unsigned long long first = 0;
    if (lane == 0) first = atomicAdd(sums.shared.counts, static_cast<unsigned long long>(runs));
    first = __shfl_sync(mask, first, 0, width);
    const auto capacity = static_cast<unsigned long long>(sums.shared.capacity);
    if (first > capacity || capacity - first < static_cast<unsigned long long>(runs)) return false;
    const auto at = static_cast<std::int64_t>(first);
    for (std::int64_t r = lane; r < runs; r += width) {
        const std::int64_t begin = range.begin + r * terms_per_run;
        const std::int64_t end = begin + terms_per_run < range.end ? begin + terms_per_run : range.end;
        sums.shared.runs[at + r] = {row + 1, begin, end};
    }
    if (lane == 0) sums.shared.rows[atomicAdd(sums.shared.counts + 1, 1ULL)] = {row, at, runs};
    return true;
}

template <class Terms>
__global__ void __launch_bounds__(ordered_sum_threads, 1)
    sum_rows(const __grid_constant__ typename Terms::Arguments call) {
    using Sum = typename Terms::Sum;
    const OrderedSums& sums = call.sums;
    const std::int64_t thread = std::int64_t{blockIdx.x} * ordered_sum_threads + threadIdx.x;
    const std::int64_t row = thread >> sums.lane_bits;
    const int lane = static_cast<int>(thread) & ((1 << sums.lane_bits) - 1);
    if (row >= sums.rows) return;
    const Terms terms(call);
    const TermRange range = terms.range(row);
    if (range.end - range.begin > terms_per_run && share_row(sums, row, range, lane)) return;
    const std::int64_t step = std::int64_t{Terms::width} << sums.lane_bits;
    for (std::int64_t channel = std::int64_t{lane} * Terms::width; channel < sums.channels; channel += step) {
        const typename Terms::Place place = terms.at(row, channel);
        Sum total[Terms::width];
        terms.start(place, total);
        for (std::int64_t begin = range.begin; begin < range.end; begin += terms_per_run) {
            Sum part[Terms::width];
            sum_run(terms, place, begin, begin + terms_per_run < range.end ? begin + terms_per_run : range.end, part);
#pragma unroll
            for (int v = 0; v < Terms::width; ++v) total[v] = add_rounded(total[v], part[v]);
        }
        terms.finish(place, total);
    }
}

template <class Terms>
__global__ void __launch_bounds__(ordered_sum_threads, 1)
    sum_runs(const __grid_constant__ typename Terms::Arguments call) {
    using Sum = typename Terms::Sum;
    const OrderedSums& sums = call.sums;
    const auto counted = static_cast<std::int64_t>(sums.shared.counts[0]);
    const std::int64_t count = counted < sums.shared.capacity ? counted : sums.shared.capacity;
    const std::int64_t thread = std::int64_t{blockIdx.x} * ordered_sum_threads + threadIdx.x;
    const int lane = static_cast<int>(thread) & ((1 << sums.lane_bits) - 1);
    const std::int64_t groups = std::int64_t{gridDim.x} * ordered_sum_threads >> sums.lane_bits;
    const Terms terms(call);
    const std::int64_t step = std::int64_t{Terms::width} << sums.lane_bits;
    for (std::int64_t r = thread >> sums.lane_bits; r < count; r += groups) {
        const SharedRun run = sums.shared.runs[r];
        if (run.row_after == 0) continue;
        for (std::int64_t channel = std::int64_t{lane} * Terms::width; channel < sums.channels; channel += step) {
            Sum part[Terms::width];
            sum_run(terms, terms.at(run.row_after - 1, channel), run.begin, run.end, part);
            Sum* to = static_cast<Sum*>(sums.shared.parts) + r * sums.channels + channel;
#pragma unroll
            for (int v = 0; v < Terms::width; ++v) to[v] = part[v];
        }
    }
}

template <class Terms>
__global__ void __launch_bounds__(ordered_sum_threads, 1)
    join_runs(const __grid_constant__ typename Terms::Arguments call) {
    using Sum = typename Terms::Sum;
    constexpr int ahead = 16;
    const OrderedSums& sums = call.sums;
    const auto count = static_cast<std::int64_t>(sums.shared.counts[1]);
    const Terms terms(call);
    for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
        const SharedRow row = sums.shared.rows[i];
        for (std::int64_t channel = std::int64_t{threadIdx.x} * Terms::width; channel < sums.channels;
             channel += std::int64_t{ordered_sum_threads} * Terms::width) {
            const typename Terms::Place place = terms.at(row.row, channel);
            const Sum* parts = static_cast<const Sum*>(sums.shared.parts) + row.first * sums.channels + channel;
            Sum total[Terms::width];
            terms.start(place, total);
            for (std::int64_t r = 0; r < row.runs; r += ahead) {
                Sum part[ahead][Terms::width];
#pragma unroll
                for (int u = 0; u < ahead; ++u) {
#pragma unroll
                    for (int v = 0; v < Terms::width; ++v) {
                        if (r + u < row.runs) part[u][v] = parts[(r + u) * sums.channels + v];
                    }
                }
#pragma unroll
                for (int u = 0; u < ahead; ++u) {
#pragma unroll
                    for (int v = 0; v < Terms::width; ++v) {
                        if (r + u < row.runs) total[v] = add_rounded(total[v], part[u][v]);
                    }
                }
            }
            terms.finish(place, total);
        }
    }
}

template <class Terms>
OrderedSumKernels ordered_sum_kernels() {
    return {reinterpret_cast<const void*>(&sum_rows<Terms>), reinterpret_cast<const void*>(&sum_runs<Terms>),
            reinterpret_cast<const void*>(&join_runs<Terms>)};
}

}  // namespace rowmax::cuda
