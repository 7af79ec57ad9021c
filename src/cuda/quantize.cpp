// Quantisers on the device.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "core/device_quantize.hpp"
#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/quantize_kernels.hpp"

namespace rowmax::cuda {

namespace {

template <bool Float8>
QuantizeKernels kernels_of(DType dtype) {
    switch (dtype) {
        case DType::f16: return quantize_kernels<TokenType::f16, Float8>();
        case DType::bf16: return quantize_kernels<TokenType::bf16, Float8>();
        default: return quantize_kernels<TokenType::f32, Float8>();
    }
}

void quantize(const core::Place& place, const core::QuantizeCall& call) {
    const CurrentDevice current(place.ordinal);
    wake_device(place.ordinal);
    const QuantizeKernels kernels = call.float8 ? kernels_of<true>(call.dtype) : kernels_of<false>(call.dtype);
    constexpr int threads = 32 * quantize_rows_of_block;
    const std::int64_t blocks = (call.count() + quantize_rows_of_block - 1) / quantize_rows_of_block;
    const auto run = [&](const void* kernel, std::int64_t grid, int block) {
        if (grid > 0) launch(kernel, {grid, block, 0}, place, &call);
    };
    if (call.group == 1) return run(kernels.rows, blocks, threads);
    if (call.groups > 1 || call.group <= quantize_rows_of_block) return run(kernels.groups, call.groups, threads);
    constexpr std::int64_t blocks_of_processor = 8;
    const std::int64_t most = device_info(place.ordinal).processors * blocks_of_processor;
    check(cudaMemsetAsync(call.scale, 0, sizeof(float), static_cast<cudaStream_t>(place.stream)), "clearing a scale");
    run(kernels.find_largest, std::min(blocks, most), threads);
    run(kernels.largest_to_scale, 1, 1);
    run(kernels.by_scale, blocks, threads);
}

}  // namespace
}  // namespace rowmax::cuda

namespace rowmax::core {

QuantizeOnDevice device_quantize() {
    return &cuda::quantize;
}

}  // namespace rowmax::core
