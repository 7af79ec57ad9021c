// Every pair of points with up to four coordinates.
//
//   a thread    holds 4 sources in registers, 128 sources apart
//   a block     128 threads: 512 sources of one item against one slice of its targets
//   targets     256 at a time in shared memory; a warp reads one of them at once, for all its lanes
//
// Of 16 targets only the least distance is kept, by one instruction a pair. Where that beats what came before, their
// place is remembered, and in the end they are looked at once more to tell which of them it was: the lowest.
#pragma once

#include "cuda/kernels/point_arguments.hpp"
#include "cuda/kernels/point_distance.cuh"
#include "cuda/kernels/stored_numbers.cuh"

namespace rowmax::cuda {

/// A kept point; of three coordinates, whose rows may be three or four numbers apart.
template <class Value, int C>
__device__ __forceinline__ Pack<Value, C == 3 ? 4 : C> held_point(const PointSide& side, std::int64_t number) {
    using Point = Pack<Value, C == 3 ? 4 : C>;
    if constexpr (C == 3) {
        const Value* row = static_cast<const Value*>(side.data) + number * side.pitch;
        return {row[0], row[1], row[2], 0};
    } else {
        return static_cast<const Point*>(side.data)[number];
    }
}

template <class Value, bool Squared, int C>
__global__ void __launch_bounds__(held_threads, 1) nearest_held(const __grid_constant__ Both<NearestArguments> both) {
    constexpr int group = 16;
    using Point = Pack<Value, C == 3 ? 4 : C>;
    __shared__ Point tile[held_targets];
    std::int64_t number = blockIdx.x;
    const NearestArguments& call = both.at(number);

    const auto distance = [](const Point& a, const Point& b) {
        Value sum = 0;
#pragma unroll
        for (int k = 0; k < C; ++k) sum = add_term<Squared>(sum, a.at[k], b.at[k]);
        return sum;
    };

    const std::int64_t slice = number / call.tiles;
    const PointTile here = tile_at(call.sources, call.sources.items.count, number % call.tiles, held_tile);
    const std::int64_t sources = call.sources.size(here.item);
    if (here.begin >= sources || call.done(here.item)) return;
    const TargetSlice range = slice_of(call.targets.size(here.item), slice, call.slices);
    const std::int64_t first_target = call.targets.first(here.item);
    const std::int64_t first_source = call.sources.first(here.item);
    const auto target = [&](std::int64_t i) { return held_point<Value, C>(call.targets, first_target + i); };

    Point source[held_sources];
    Value best[held_sources];
    std::int32_t where[held_sources];
#pragma unroll
    for (int q = 0; q < held_sources; ++q) {
        const std::int64_t s = here.begin + q * held_threads + threadIdx.x;
        source[q] = held_point<Value, C>(call.sources, first_source + (s < sources ? s : sources - 1));
        best[q] = infinite<Value>();
        where[q] = -1;
    }

    for (std::int64_t begin = range.begin; begin < range.end; begin += held_targets) {
        const int count = static_cast<int>(range.end - begin < held_targets ? range.end - begin : held_targets);
        __syncthreads();
        for (int t = threadIdx.x; t < count; t += held_threads) tile[t] = target(begin + t);
        __syncthreads();
        for (int t = 0; t < count; t += group) {
            Value least[held_sources];
#pragma unroll
            for (int q = 0; q < held_sources; ++q) least[q] = infinite<Value>();
            const auto take = [&](const Point& other) {
#pragma unroll
                for (int q = 0; q < held_sources; ++q) {
                    least[q] = least_or_nan(least[q], distance(source[q], other));
                }
            };
            if (t + group <= count) {
#pragma unroll
                for (int i = 0; i < group; ++i) take(tile[t + i]);
            } else {
                for (int i = t; i < count; ++i) take(tile[i]);
            }
#pragma unroll
            for (int q = 0; q < held_sources; ++q) {
                if (!nearer(least[q], best[q])) continue;
                best[q] = least[q];
                where[q] = static_cast<std::int32_t>(begin) + t;
            }
        }
    }

#pragma unroll
    for (int q = 0; q < held_sources; ++q) {
        const std::int64_t s = here.begin + q * held_threads + threadIdx.x;
        if (s >= sources) continue;
        // Nothing was nearer than infinity: if there are targets, all are as far.
        std::int64_t index = range.begin < range.end ? range.begin : -1;
        if (where[q] >= 0) {
            index = where[q];
            while (index + 1 < range.end && !as_near(distance(source[q], target(index)), best[q])) ++index;
        }
        const std::int64_t at = slice * call.sources.items.rows + first_source + s;
        static_cast<Value*>(call.distance)[at] = best[q];
        call.index[at] = static_cast<std::int32_t>(index);
    }
}

}  // namespace rowmax::cuda
