// Devices as the layers above see them: memory, streams, events and copies, without a header of the backend.
#pragma once

#include <cstddef>
#include <string>

#include "core/params.hpp"

namespace rowmax::core {

/// Functions throw Error, naming the device, unless they are noexcept. Streams and events are the backend's own, by
/// pointer; a Place says on which device and in which stream.
struct DeviceRuntime {
    int (*count)();
    /// Why there is no device ("a CUDA device (no driver)"); empty when there is one.
    std::string (*problem)();
    std::string (*name)(int ordinal);  ///< "NVIDIA H200"
    /// Loads what the device runs, which takes a while at the first call.
    void (*wake)(int ordinal);
    std::size_t (*free_bytes)(int ordinal);

    void* (*allocate)(int ordinal, std::size_t bytes);
    void (*release)(void* memory) noexcept;
    /// Memory of the host that every device copies from and to at full speed, and without the host.
    void* (*allocate_pinned)(int ordinal, std::size_t bytes);
    void (*release_pinned)(void* memory) noexcept;

    void* (*make_stream)(int ordinal);
    void (*end_stream)(void* stream) noexcept;  ///< waits for its work
    void* (*make_event)(int ordinal);
    void (*end_event)(void* event) noexcept;
    void (*record)(const Place& place, void* event);
    /// The stream goes on when the event has come. One that was never recorded has.
    void (*wait)(const Place& place, void* event);
    void (*finish)(void* event);  ///< the caller waits
    /// Between host and device either way, in the order of the stream.
    void (*copy)(const Place& place, void* to, const void* from, std::size_t bytes);
    /// Whether the stream's work is being recorded into a graph, so that nobody can wait for it.
    bool (*captured)(const Place& place);
    void (*drain)(const Place& place);  ///< the caller waits for what is queued on the stream
    /// Zeros, in the order of the stream.
    void (*clear)(const Place& place, void* memory, std::size_t bytes) = nullptr;
};

/// Null in a build without CUDA (src/no_cuda).
const DeviceRuntime* device_runtime();

}  // namespace rowmax::core
