// Making compressed tokens on a device: what a backend offers. Arguments are checked; their memory is the device's.
#pragma once

#include <cstdint>

#include "core/params.hpp"

namespace rowmax::core {

/// Token rows [items..., L] whose last dimension is contiguous. Strides in elements.
struct DeviceRows {
    const void* data = nullptr;
    DType dtype = DType::f32;
    std::int64_t shape[3] = {1, 1, 1};
    std::int64_t stride[3] = {0, 0, 0};
    std::int64_t dim = 0;

    [[nodiscard]] constexpr std::int64_t count() const { return shape[0] * shape[1] * shape[2]; }
    /// Where a row begins, in elements.
    [[nodiscard]] constexpr std::int64_t at(std::int64_t row) const {
        const std::int64_t upper = row / shape[2];
        return upper / shape[1] * stride[0] + upper % shape[1] * stride[1] + row % shape[2] * stride[2];
    }
};

struct DeviceCodes {
    /// One bit a dimension, as sign_bits().
    void (*sign_bits)(const Place&, const DeviceRows&, bool big, std::uint8_t* bits);
};

/// Null in a build without CUDA (src/no_cuda).
const DeviceCodes* device_codes();

}  // namespace rowmax::core
