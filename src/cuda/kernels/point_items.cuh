// Of points, what does not depend on their type: where items start, which points are kept, and who chose which.
#pragma once

#include "cuda/kernels/point_arguments.hpp"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

inline constexpr int straighten_threads = 1024;

/// One thread block: offsets, clamped to the storage and made to ascend, so that no two items share a row.
__global__ void __launch_bounds__(straighten_threads)
    straighten_offsets(const __grid_constant__ StraightenArguments call) {
    __shared__ long long of_warp[straighten_threads / 32];
    const core::Segments& side = call.side;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    long long before = 0;
    for (std::int64_t first = 0; first <= side.count; first += straighten_threads) {
        const std::int64_t i = first + threadIdx.x;
        long long most = 0;
        if (i <= side.count) {
            most = core::detail::clamp(core::detail::read_int(side.starts, side.wide_starts, i), 0, side.total_rows);
        }
        for (int step = 1; step < 32; step *= 2) {
            const long long other = __shfl_up_sync(all_lanes, most, step);
            if (lane >= step && other > most) most = other;
        }
        if (lane == 31) of_warp[warp] = most;
        __syncthreads();
        long long earlier = before;
        for (int w = 0; w < warp; ++w) earlier = of_warp[w] > earlier ? of_warp[w] : earlier;
        if (earlier > most) most = earlier;
        if (i <= side.count) call.to[i] = most;
        for (int w = 0; w < straighten_threads / 32; ++w) before = of_warp[w] > before ? of_warp[w] : before;
        __syncthreads();
    }
}

__device__ __forceinline__ std::int64_t point_item_thread() {
    return std::int64_t{blockIdx.x} * point_threads + threadIdx.x;
}

/// One thread a row: 1 where the mask keeps it. One more for the end.
__global__ void __launch_bounds__(point_threads) mark_kept(const __grid_constant__ MarkArguments call) {
    const std::int64_t row = point_item_thread();
    const core::Segments& side = call.side;
    if (row > side.total_rows) return;
    bool kept = false;
    if (row < side.total_rows) {
        const std::int64_t item = core::detail::quotient(row, side.length);
        kept = side.keeps(side.at(item), row - item * side.length);
    }
    call.kept[row] = kept ? 1 : 0;
}

/// One thread a choice: the row of the storage that it chose, one past the last where it chose none.
__global__ void __launch_bounds__(point_threads)
    number_choices(const __grid_constant__ Both<NumberChoicesArguments> both) {
    std::int64_t choice = point_item_thread();
    const NumberChoicesArguments& call = both.at(choice);
    if (choice >= call.choices) return;
    const std::int64_t row = call.k == 1 ? choice : core::detail::quotient(choice, call.k);
    const std::int64_t item = call.sources.item_of(row);
    const std::int64_t target = call.index[choice];
    const bool chose = item >= 0 && target >= 0 && target < call.targets.size(item);
    const std::int64_t place = chose ? call.first_row + call.targets.first(item) + target : call.none;
    call.keys[choice] = static_cast<std::uint32_t>(place);
    call.numbers[choice] = static_cast<std::uint32_t>(choice);
}

}  // namespace rowmax::cuda
