// The rows of points before they are compared, widened and closed up.
#pragma once

#include "cuda/kernels/point_arguments.hpp"
#include "cuda/kernels/stored_numbers.cuh"

namespace rowmax::cuda {

__device__ __forceinline__ std::int64_t point_thread() {
    return std::int64_t{blockIdx.x} * point_threads + threadIdx.x;
}

/// Some threads a row: its numbers, where it is kept.
template <class Value>
__global__ void __launch_bounds__(point_threads) gather_points(const __grid_constant__ GatherArguments call) {
    const std::int64_t row = point_thread() >> call.lane_bits;
    const std::int64_t lane = point_thread() & ((1 << call.lane_bits) - 1);
    if (row >= call.items.rows) return;
    const bool all = call.ranks == nullptr;
    if (!all && call.ranks[row + 1] == call.ranks[row]) return;
    const std::int64_t to = all ? row : call.ranks[row];
    const std::byte* from = nullptr;
    if (call.side.kind == core::SegmentKind::strided) {
        const std::int64_t item = core::detail::quotient(row, call.side.length);
        from = call.side.at(item).data + (row - item * call.side.length) * call.side.row_stride;
    } else {
        from = call.side.data + row * call.side.row_stride;
    }
    auto* numbers = static_cast<Value*>(call.to) + to * call.pitch;
    for (std::int64_t k = lane; k < call.pitch; k += std::int64_t{1} << call.lane_bits) {
        numbers[k] = k < call.dim ? read_number<Value>(from, call.dtype, k) : Value{0};
    }
    if (lane == 0 && !all) call.positions[to] = static_cast<std::int32_t>(row);
}

}  // namespace rowmax::cuda
