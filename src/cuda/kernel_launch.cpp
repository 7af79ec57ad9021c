#include "cuda/kernel_launch.hpp"

#include <cuda_runtime_api.h>

#include "cuda/device.hpp"

namespace rowmax::cuda {

void load_kernel(const void* function, int shared_bytes) {
    check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes), "loading kernels");
}

void launch(const void* function, const LaunchShape& shape, const core::Place& place, const void* arguments) {
    void* parameters[] = {const_cast<void*>(arguments)};
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(shape.grid));
    config.blockDim = dim3(static_cast<unsigned>(shape.threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
    config.stream = static_cast<cudaStream_t>(place.stream);
    config.attrs = &early;
    config.numAttrs = shape.early ? 1 : 0;
    check(cudaLaunchKernelExC(&config, function, parameters), "launch");
}

}  // namespace rowmax::cuda
