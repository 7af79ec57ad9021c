// Every pair of points with any number of coordinates, tile by tile (square_distances.cuh).
//
// Each thread keeps the nearest of the targets that it met, the lowest of equals since they ascend; in the end the 16
// threads of a source compare.
#pragma once

#include "cuda/kernels/point_arguments.hpp"
#include "cuda/kernels/square_distances.cuh"

namespace rowmax::cuda {

template <class Value>
__device__ __forceinline__ PointRows<Value> rows_of_item(const PointSide& side, std::int64_t item) {
    return {static_cast<const Value*>(side.data) + side.first(item) * side.pitch, side.pitch, side.size(item)};
}

template <class Value, bool Squared>
__global__ void __launch_bounds__(square_threads) nearest_tiles(const __grid_constant__ Both<NearestArguments> both) {
    std::int64_t number = blockIdx.x;
    const NearestArguments& call = both.at(number);
    const std::int64_t slice = number / call.tiles;
    const PointTile here = tile_at(call.sources, call.sources.items.count, number % call.tiles, square_tile);
    const auto sources = rows_of_item<Value>(call.sources, here.item);
    if (here.begin >= sources.count) return;
    const auto targets = rows_of_item<Value>(call.targets, here.item);
    const TargetSlice range = slice_of(targets.count, slice, call.slices);
    const PlaceInSquare place;

    Value best[side_of_thread];
    std::int32_t index[side_of_thread];
#pragma unroll
    for (int i = 0; i < side_of_thread; ++i) {
        best[i] = infinite<Value>();
        index[i] = -1;
    }

    for (std::int64_t begin = range.begin; begin < range.end; begin += square_tile) {
        SquareSums<Value> distance;
        square_distances<Squared>(sources, here.begin, targets, begin, call.dim, distance);
#pragma unroll
        for (int i = 0; i < side_of_thread; ++i) {
#pragma unroll
            for (int j = 0; j < side_of_thread; ++j) {
                const std::int64_t target = begin + place.column + j;
                if (target >= range.end) continue;
                if (index[i] >= 0 && !nearer(distance.at[i][j], best[i])) continue;
                best[i] = distance.at[i][j];
                index[i] = static_cast<std::int32_t>(target);
            }
        }
    }

#pragma unroll
    for (int i = 0; i < side_of_thread; ++i) {
#pragma unroll
        for (int step = threads_of_side / 2; step > 0; step /= 2) {
            const Value distance = exchange(best[i], step);
            const std::int32_t other = exchange(index[i], step);
            if (!comes_first(distance, other, best[i], index[i])) continue;
            best[i] = distance;
            index[i] = other;
        }
        const std::int64_t s = here.begin + place.row + i;
        if (place.column != 0 || s >= sources.count) continue;
        const std::int64_t at = slice * call.sources.items.rows + call.sources.first(here.item) + s;
        static_cast<Value*>(call.distance)[at] = best[i];
        call.index[at] = index[i];
    }
}

}  // namespace rowmax::cuda
