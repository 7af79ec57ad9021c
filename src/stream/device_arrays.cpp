#include "stream/device_arrays.hpp"

namespace rowmax::stream {

DeviceArrays::DeviceArrays(const DeviceBackend& backend, int ordinal)
    : runtime_(*backend.runtime),
      ordinal_(ordinal),
      done_(event_on(runtime_, ordinal)),
      stream_(stream_on(runtime_, ordinal)) {}

std::byte* DeviceArrays::take(std::size_t bytes) {
    return memory_.emplace_back(device_memory(runtime_, ordinal_, bytes)).bytes();
}

std::byte* DeviceArrays::put(const void* host, std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    std::byte* to = take(bytes + alignment) + reinterpret_cast<std::uintptr_t>(host) % alignment;
    runtime_.copy(place(), to, host, bytes);
    finish();
    return to;
}

void DeviceArrays::get(void* host, const std::byte* device, std::size_t bytes) {
    runtime_.copy(place(), host, device, bytes);
    finish();
}

void DeviceArrays::finish() {
    runtime_.record(place(), done_.get());
    runtime_.finish(done_.get());
}

}  // namespace rowmax::stream
