// What is made of nearest points: results by the storage's rows, and sums of distances in a fixed order.
#pragma once

#include "cuda/kernels/point_distance.cuh"
#include "cuda/kernels/point_rows.cuh"

namespace rowmax::cuda {

static_assert(positions_of_run == point_threads);

template <class Value>
struct FoundPoint {
    Value distance;
    std::int32_t number;  ///< -1: none
};

/// The nearest of a source, of the slices' or from its key.
template <class Value>
__device__ __forceinline__ FoundPoint<Value> found_point(const WriteNearestArguments& call, std::int64_t rank) {
    FoundPoint<Value> best{static_cast<Value>(call.none), -1};
    if (call.keys != nullptr) {
        const unsigned long long key = call.keys[rank];
        if (key == ~0ULL) return best;
        const auto bits = static_cast<std::uint32_t>(key >> 32) - first_distance_key;
        return {static_cast<Value>(__uint_as_float(bits)), static_cast<std::int32_t>(key & 0xffffffffU)};
    }
    const NearestArguments& found = call.found;
    for (std::int64_t slice = 0; slice < found.slices; ++slice) {
        const std::int64_t at = slice * found.sources.items.rows + rank;
        const Value distance = static_cast<const Value*>(found.distance)[at];
        const std::int32_t other = found.index[at];
        if (other < 0 || (best.number >= 0 && !nearer(distance, best.distance))) continue;
        best = {distance, other};
    }
    return best;
}

/// The result of a row of the storage; `item` is -1 for a row of none. Returns the distance.
template <class Value>
__device__ __forceinline__ Value write_point(const WriteNearestArguments& call, std::int64_t row, std::int64_t item) {
    const PointSide& sources = call.found.sources;
    FoundPoint<Value> best{static_cast<Value>(call.none), -1};
    if (item >= 0 && sources.keeps(row)) best = found_point<Value>(call, sources.rank(row));
    if (call.distance != nullptr) static_cast<Value*>(call.distance)[row] = best.distance;
    if (call.index == nullptr) return best.distance;
    const PointSide& targets = call.found.targets;
    call.index[row] = best.number < 0 ? -1 : targets.row(targets.first(item) + best.number) - targets.items.first(item);
    return best.distance;
}

/// One thread block a run of 256 positions: their results and, where wanted, the sum of their distances, added in order
/// in double precision. Rows of no item, which lie at the ends, are divided among the blocks.
template <class Value>
__global__ void __launch_bounds__(point_threads)
    write_nearest(const __grid_constant__ Both<WriteNearestArguments> both) {
    __shared__ Value staged[positions_of_run];
    std::int64_t run = blockIdx.x;
    const WriteNearestArguments& call = both.at(run);
    const PointItems& items = call.found.sources.items;
    if (items.starts != nullptr) {
        const std::int64_t before = items.starts[0];
        const std::int64_t outside = before + items.rows - items.starts[items.count];
        const std::int64_t step = runs_of_points(items) * point_threads;
        for (std::int64_t i = run * point_threads + threadIdx.x; i < outside; i += step) {
            write_point<Value>(call, i < before ? i : items.rows - outside + i, -1);
        }
    }
    if (items.count == 0) return;
    const PointTile here = tile_at(items, items.count, run, positions_of_run);
    const std::int64_t left = items.size(here.item) - here.begin;
    if (left <= 0) return;
    const int count = static_cast<int>(left < positions_of_run ? left : positions_of_run);
    if (threadIdx.x < count) {
        staged[threadIdx.x] = write_point<Value>(call, items.first(here.item) + here.begin + threadIdx.x, here.item);
    }
    if (call.parts == nullptr) return;
    __syncthreads();
    if (threadIdx.x != 0) return;
    double sum = 0;
#pragma unroll 8
    for (int i = 0; i < count; ++i) sum += static_cast<double>(staged[i]);
    call.parts[run] = sum;
}

/// The sum of an item's runs in order, by a warp; all lanes have it.
__device__ __forceinline__ double sum_of_runs(const PointItems& items, const double* parts, std::int64_t item) {
    constexpr int at_once = 256;
    __shared__ double staged[point_threads / 32][at_once];
    const double* from = parts + items.first(item) / positions_of_run + item;
    const std::int64_t runs = (items.size(item) + positions_of_run - 1) / positions_of_run;
    double* mine = staged[threadIdx.x / 32];
    double total = 0;
    for (std::int64_t first = 0; first < runs; first += at_once) {
        const int count = static_cast<int>(runs - first < at_once ? runs - first : at_once);
        for (int i = threadIdx.x % 32; i < count; i += 32) mine[i] = from[first + i];
        __syncwarp();
#pragma unroll 8
        for (int i = 0; i < count; ++i) total += mine[i];
        __syncwarp();
    }
    return total;
}

/// One warp an item: both directions' sums, or means over the points that are kept.
template <class Value>
__global__ void __launch_bounds__(point_threads) add_chamfer(const __grid_constant__ ChamferArguments call) {
    const std::int64_t item = point_thread() / 32;
    if (item >= call.p.items.count) return;
    const auto reduced = [&](const PointSide& side, const double* parts) {
        const double total = sum_of_runs(side.items, parts, item);
        const std::int64_t kept = side.size(item);
        return call.mean && kept > 0 ? total / static_cast<double>(kept) : total;
    };
    double value = reduced(call.p, call.parts_p);
    if (call.parts_r != nullptr) value += reduced(call.r, call.parts_r);
    if (threadIdx.x % 32 == 0) static_cast<Value*>(call.value)[item] = static_cast<Value>(value);
}

}  // namespace rowmax::cuda
