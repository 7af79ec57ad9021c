// One bit a dimension: a thread a byte.
#pragma once

#include "cuda/kernels/code_arguments.hpp"
#include "cuda/kernels/residual_values.cuh"

namespace rowmax::cuda {

__global__ void __launch_bounds__(code_threads) make_sign_bits(const __grid_constant__ SignArguments call) {
    const std::int64_t bytes = (call.rows.dim + 7) / 8;
    const std::int64_t at = std::int64_t{blockIdx.x} * code_threads + threadIdx.x;
    if (at >= call.rows.count() * bytes) return;
    const std::int64_t row = at / bytes;
    const std::int64_t first = (at - row * bytes) * 8;
    const std::int64_t begin = call.rows.at(row);
    unsigned byte = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const std::int64_t k = first + i;
        const bool set = k < call.rows.dim &&
                         element_of(static_cast<const std::byte*>(call.rows.data), call.rows.dtype, begin + k) > 0;
        byte |= (set ? 1U : 0U) << (call.big ? 7 - i : i);
    }
    call.bits[at] = static_cast<std::uint8_t>(byte);
}

}  // namespace rowmax::cuda
