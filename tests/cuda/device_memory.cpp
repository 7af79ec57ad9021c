#include "cuda/device_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace rowmax::test {

namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 30;

void must(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

}  // namespace

void DeviceMemory::reserve() {
    if (arena_ != nullptr) return;
    void* memory = nullptr;
    must(cudaMalloc(&memory, arena_bytes));
    arena_ = static_cast<std::byte*>(memory);
}

std::byte* DeviceMemory::take(std::size_t bytes, std::uintptr_t like) {
    reserve();
    Taken taken;
    taken.begin = used_;
    taken.data = used_ + guard + like % 256;
    taken.bytes = bytes;
    taken.end = (taken.data + bytes + guard + 255) / 256 * 256;
    if (taken.end > arena_bytes) throw std::runtime_error("test: the arena is too small");
    must(cudaMemset(arena_ + taken.begin, 0xff, taken.end - taken.begin));
    used_ = taken.end;
    taken_.push_back(taken);
    return arena_ + taken.data;
}

bool DeviceMemory::guards_hold() const {
    std::vector<std::uint8_t> bytes;
    for (const Taken& t : taken_) {
        bytes.resize(t.end - t.begin);
        must(cudaMemcpy(bytes.data(), arena_ + t.begin, bytes.size(), cudaMemcpyDeviceToHost));
        const auto poisoned = [](std::uint8_t b) { return b == 0xff; };
        const auto data = bytes.begin() + static_cast<std::ptrdiff_t>(t.data - t.begin);
        if (!std::all_of(bytes.begin(), data, poisoned)) return false;
        if (!std::all_of(data + static_cast<std::ptrdiff_t>(t.bytes), bytes.end(), poisoned)) return false;
    }
    return true;
}

void DeviceMemory::give_back() {
    used_ = 0;
    taken_.clear();
}

// cudaMemcpy returns when ordinary memory was read, not when it has arrived: work on other streams would not wait.
void DeviceMemory::to_device(std::byte* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    must(cudaStreamSynchronize(nullptr));
}

void DeviceMemory::to_host(void* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0) must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

}  // namespace rowmax::test
