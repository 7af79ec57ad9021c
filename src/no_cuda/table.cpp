// A build without CUDA: the CUDA backend's table is empty.
#include "core/device_codes.hpp"
#include "core/device_hidden.hpp"
#include "core/device_plaid.hpp"
#include "core/device_quantize.hpp"
#include "core/device_runtime.hpp"
#include "core/device_topk.hpp"
#include "core/index_backend.hpp"
#include "core/point_backend.hpp"
#include "core/registry.hpp"

namespace rowmax::core {

std::span<const Kernel> cuda_kernels() {
    return {};
}

const DeviceRuntime* device_runtime() {
    return nullptr;
}

const DeviceTopK* device_topk() {
    return nullptr;
}

const PointBackend* cuda_points() {
    return nullptr;
}

const IndexBackend* cuda_index() {
    return nullptr;
}

QuantizeOnDevice device_quantize() {
    return nullptr;
}

const DeviceCodes* device_codes() {
    return nullptr;
}

const DeviceHidden* device_hidden() {
    return nullptr;
}

const DevicePlaid* device_plaid() {
    return nullptr;
}

}  // namespace rowmax::core
