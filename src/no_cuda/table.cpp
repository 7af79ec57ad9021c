// A build without CUDA: the CUDA backend's table is empty.
#include "core/registry.hpp"

namespace rowmax::core {

std::span<const Kernel> cuda_kernels() {
    return {};
}

}  // namespace rowmax::core
