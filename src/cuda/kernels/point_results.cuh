// What is made of nearest points: results by the storage's rows, and sums of distances in a fixed order.
#pragma once

#include "cuda/kernels/point_distance.cuh"
#include "cuda/kernels/point_rows.cuh"

namespace rowmax::cuda {

/// One thread a row of the storage: the nearest of the slices' nearest, or that there is none.
template <class Value>
__global__ void __launch_bounds__(point_threads) write_nearest(const __grid_constant__ WriteNearestArguments call) {
    const std::int64_t row = point_thread();
    const NearestArguments& found = call.found;
    const PointSide& sources = found.sources;
    if (row >= sources.items.rows) return;
    const std::int64_t item = sources.items.item_of(row);
    auto best = static_cast<Value>(call.none);
    std::int32_t number = -1;
    if (item >= 0 && sources.keeps(row)) {
        for (std::int64_t slice = 0; slice < found.slices; ++slice) {
            const std::int64_t at = slice * sources.items.rows + sources.rank(row);
            const Value distance = static_cast<const Value*>(found.distance)[at];
            const std::int32_t other = found.index[at];
            if (other < 0 || (number >= 0 && !nearer(distance, best))) continue;
            best = distance;
            number = other;
        }
    }
    static_cast<Value*>(call.distance)[row] = best;
    if (call.index == nullptr) return;
    const PointSide& targets = found.targets;
    call.index[row] = number < 0 ? -1 : targets.row(targets.first(item) + number) - targets.items.first(item);
}

inline constexpr int positions_of_run = 256;

/// One warp a run of 256 positions: their distances, added in order in double precision.
template <class Value>
__global__ void __launch_bounds__(point_threads) sum_point_runs(const __grid_constant__ SumRunsArguments call) {
    __shared__ Value staged[point_threads / 32][positions_of_run];
    const std::int64_t run = point_thread() / 32;
    const int lane = threadIdx.x % 32;
    if (run >= tiles_of(call.items.rows, call.items.count, positions_of_run)) return;
    const PointTile here = tile_at(call.items, call.items.count, run, positions_of_run);
    const std::int64_t left = call.items.size(here.item) - here.begin;
    if (left <= 0) return;
    const int count = static_cast<int>(left < positions_of_run ? left : positions_of_run);
    Value* mine = staged[threadIdx.x / 32];
    const auto* from = static_cast<const Value*>(call.distance) + call.items.first(here.item) + here.begin;
    for (int i = lane; i < count; i += 32) mine[i] = from[i];
    __syncwarp();
    if (lane != 0) return;
    double sum = 0;
#pragma unroll 8
    for (int i = 0; i < count; ++i) sum += static_cast<double>(mine[i]);
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
