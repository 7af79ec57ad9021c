#include "stream/device_backend.hpp"

#include "rowmax/error.hpp"

namespace rowmax::stream {

const DeviceBackend& device_backend() {
    static const DeviceBackend backend{core::device_runtime(), core::device_topk()};
    if (backend.runtime != nullptr) return backend;
    throw Error(ErrorCode::device, "this build of rowmax has no CUDA kernels");
}

}  // namespace rowmax::stream
