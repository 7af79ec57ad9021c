// Owners of what a device's runtime hands out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/device_runtime.hpp"

namespace rowmax::stream {

/// Something that `release` takes back. Move-only.
class Handle {
  public:
    Handle() = default;
    Handle(void* held, void (*release)(void*) noexcept) : held_(held), release_(release) {}
    Handle(Handle&& other) noexcept : held_(std::exchange(other.held_, nullptr)), release_(other.release_) {}
    Handle& operator=(Handle&& other) noexcept {
        std::swap(held_, other.held_);
        std::swap(release_, other.release_);
        return *this;
    }
    ~Handle() {
        if (held_ != nullptr) release_(held_);
    }
    [[nodiscard]] void* get() const { return held_; }
    [[nodiscard]] std::byte* bytes() const { return static_cast<std::byte*>(held_); }

  private:
    void* held_ = nullptr;
    void (*release_)(void*) noexcept = nullptr;
};

inline Handle device_memory(const core::DeviceRuntime& runtime, int ordinal, std::size_t bytes) {
    constexpr std::size_t least = 256;  // an address, even of nothing
    return {runtime.allocate(ordinal, std::max(bytes, least)), runtime.release};
}

inline Handle pinned_memory(const core::DeviceRuntime& runtime, int ordinal, std::size_t bytes) {
    return {runtime.allocate_pinned(ordinal, bytes), runtime.release_pinned};
}

inline Handle stream_on(const core::DeviceRuntime& runtime, int ordinal) {
    return {runtime.make_stream(ordinal), runtime.end_stream};
}

inline Handle event_on(const core::DeviceRuntime& runtime, int ordinal) {
    return {runtime.make_event(ordinal), runtime.end_event};
}

}  // namespace rowmax::stream
