// Rows gathered from an array into a copy of them, and back: a warp has a row.
#pragma once

#include "cuda/kernels/hidden_kernels.hpp"

namespace rowmax::cuda {

__device__ __forceinline__ std::byte* row_in_all(const core::ChosenRows& call, std::int64_t row) {
    const std::int64_t item = core::detail::quotient(row, call.length);
    return call.all + item * call.item_stride + (row - item * call.length) * call.token_stride;
}

/// From `from`, or zeros without it.
template <class Unit>
__device__ __forceinline__ void copy_row(std::byte* __restrict__ to, const std::byte* __restrict__ from,
                                         std::int64_t bytes) {
    const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(Unit));
#pragma unroll 4
    for (std::int64_t i = threadIdx.x % 32; i < count; i += 32) {
        reinterpret_cast<Unit*>(to)[i] = from == nullptr ? Unit{} : reinterpret_cast<const Unit*>(from)[i];
    }
}

__device__ __forceinline__ void copy_row(std::byte* __restrict__ to, const std::byte* __restrict__ from,
                                         std::int64_t bytes) {
    const auto bits = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) |
                      static_cast<std::uintptr_t>(bytes);
    if (bits % 16 == 0) {
        copy_row<uint4>(to, from, bytes);
    } else if (bits % 4 == 0) {
        copy_row<std::uint32_t>(to, from, bytes);
    } else {
        copy_row<std::uint16_t>(to, from, bytes);
    }
}

template <bool Back>
__global__ void __launch_bounds__(32 * hidden_row_warps) move_rows(const __grid_constant__ core::ChosenRows call) {
    const std::int64_t i = std::int64_t{blockIdx.x} * hidden_row_warps + threadIdx.x / 32;
    if (i >= call.count) return;
    const std::int64_t row = call.rows[i];
    std::byte* copy = call.copy + i * call.bytes;
    if constexpr (Back) {
        if (row >= 0) copy_row(row_in_all(call, row), copy, call.bytes);
    } else {
        copy_row(copy, row < 0 ? nullptr : row_in_all(call, row), call.bytes);
    }
}

}  // namespace rowmax::cuda
