// Quantisers on a device: what a backend offers. Core checks the call and says where the rows lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/params.hpp"

namespace rowmax::core {

/// Rows of numbers in, codes and scales out, both contiguous.
struct QuantizeCall {
    const std::byte* rows = nullptr;
    DType dtype = DType::f32;  ///< float16, bfloat16 or float32
    std::int64_t dim = 0;
    /// Row r = (outer, inner, token); strides in bytes.
    std::int64_t length = 1;  ///< tokens of an item
    std::int64_t inner = 1;   ///< items of an outer one
    std::int64_t stride_token = 0;
    std::int64_t stride_inner = 0;
    std::int64_t stride_outer = 0;
    std::int64_t group = 1;   ///< consecutive rows that share a scale
    std::int64_t groups = 0;  ///< of so many rows: scales
    bool float8 = false;      ///< codes are e4m3 rather than int8
    void* codes = nullptr;
    float* scale = nullptr;

    [[nodiscard]] constexpr std::int64_t count() const { return groups * group; }
    [[nodiscard]] constexpr const std::byte* row(std::int64_t number) const {
        const std::int64_t item = detail::quotient(number, length);
        const std::int64_t outer = detail::quotient(item, inner);
        return rows + outer * stride_outer + (item - outer * inner) * stride_inner +
               (number - item * length) * stride_token;
    }
};

/// Queues the work; null in a build without CUDA (src/no_cuda).
using QuantizeOnDevice = void (*)(const Place& place, const QuantizeCall& call);
QuantizeOnDevice device_quantize();

}  // namespace rowmax::core
