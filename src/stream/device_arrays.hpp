// Arrays of the host, copied to a device for calls that are not worth a pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/params.hpp"
#include "stream/device_backend.hpp"
#include "stream/device_memory.hpp"

namespace rowmax::stream {

/// Gives its memory back at the end of its life. Calls return when their copies are done.
class DeviceArrays {
  public:
    DeviceArrays(const DeviceBackend& backend, int ordinal);

    /// Where work goes.
    [[nodiscard]] core::Place place() const { return {true, ordinal_, stream_.get(), nullptr}; }
    std::byte* take(std::size_t bytes);
    /// Copies to the device; as far from a multiple of 256 as on the host.
    std::byte* put(const void* host, std::size_t bytes);
    /// Copies back, after all work.
    void get(void* host, const std::byte* device, std::size_t bytes);
    void finish();

  private:
    const core::DeviceRuntime& runtime_;
    int ordinal_;
    std::vector<Handle> memory_;
    Handle done_;
    Handle stream_;
};

}  // namespace rowmax::stream
