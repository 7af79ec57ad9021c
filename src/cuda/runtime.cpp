// The CUDA runtime behind core/device_runtime.hpp.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/device_runtime.hpp"
#include "core/parallel.hpp"
#include "cuda/device.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

cudaStream_t stream_of(const core::Place& place) {
    return static_cast<cudaStream_t>(place.stream);
}

std::string problem() {
    return device_problem();
}

std::string name(int ordinal) {
    device_info(ordinal);  // that it exists
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
    return properties.name;
}

void wake(int ordinal) {
    device_info(ordinal);
    const CurrentDevice current(ordinal);
    wake_device(ordinal);
}

std::size_t free_bytes(int ordinal) {
    const CurrentDevice current(ordinal);
    std::size_t available = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    return available;
}

void* allocate(int ordinal, std::size_t bytes) {
    const CurrentDevice current(ordinal);
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), fmt::format("cuda:{}: {} bytes of its memory", ordinal, bytes));
    return memory;
}

void release(void* memory) noexcept {
    if (memory != nullptr) cudaFree(memory);
}

// In huge pages, which threads bring in: with cudaHostAlloc small pages take half a millisecond for every MiB.
void* allocate_pinned(int ordinal, std::size_t bytes) {
    constexpr std::size_t huge = std::size_t{2} << 20;
    const std::size_t size = (bytes + huge - 1) / huge * huge;
    const CurrentDevice current(ordinal);
    void* memory = std::aligned_alloc(huge, size);
    if (memory == nullptr) throw Error(ErrorCode::out_of_memory, fmt::format("{} bytes of pinned memory", bytes));
    madvise(memory, size, MADV_HUGEPAGE);
    core::parallel_for(core::thread_count(0), static_cast<std::int64_t>(size / huge), [&](std::int64_t page) {
        static_cast<std::byte*>(memory)[static_cast<std::size_t>(page) * huge] = std::byte{0};
    });
    const cudaError_t error = cudaHostRegister(memory, size, cudaHostRegisterPortable);
    if (error != cudaSuccess) std::free(memory);
    check(error, fmt::format("{} bytes of pinned memory", bytes));
    return memory;
}

void release_pinned(void* memory) noexcept {
    if (memory == nullptr) return;
    cudaHostUnregister(memory);
    std::free(memory);
}

void* make_stream(int ordinal) {
    const CurrentDevice current(ordinal);
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    return stream;
}

void end_stream(void* stream) noexcept {
    cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
    cudaStreamDestroy(static_cast<cudaStream_t>(stream));
}

void* make_event(int ordinal) {
    const CurrentDevice current(ordinal);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    return event;
}

void end_event(void* event) noexcept {
    cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

void record(const core::Place& place, void* event) {
    const CurrentDevice current(place.ordinal);
    check(cudaEventRecord(static_cast<cudaEvent_t>(event), stream_of(place)), "cudaEventRecord");
}

void wait(const core::Place& place, void* event) {
    const CurrentDevice current(place.ordinal);
    check(cudaStreamWaitEvent(stream_of(place), static_cast<cudaEvent_t>(event), 0), "cudaStreamWaitEvent");
}

// Kernels that failed are found here.
void finish(void* event) {
    check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "waiting for the device");
}

void copy(const core::Place& place, void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    const CurrentDevice current(place.ordinal);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(place)), "copy");
}

bool captured(const core::Place& place) {
    cudaStreamCaptureStatus status{};
    check(cudaStreamIsCapturing(stream_of(place), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
}

void drain(const core::Place& place) {
    const CurrentDevice current(place.ordinal);
    check(cudaStreamSynchronize(stream_of(place)), "waiting for a stream");
}

void clear(const core::Place& place, void* memory, std::size_t bytes) {
    const CurrentDevice current(place.ordinal);
    check(cudaMemsetAsync(memory, 0, bytes, stream_of(place)), "cudaMemsetAsync");
}

constexpr core::DeviceRuntime runtime{
    &device_count,   &problem,     &name,       &wake,       &free_bytes, &allocate, &release, &allocate_pinned,
    &release_pinned, &make_stream, &end_stream, &make_event, &end_event,  &record,   &wait,    &finish,
    &copy,           &captured,    &drain,      &clear};

}  // namespace
}  // namespace rowmax::cuda

namespace rowmax::core {

const DeviceRuntime* device_runtime() {
    return &cuda::runtime;
}

}  // namespace rowmax::core
