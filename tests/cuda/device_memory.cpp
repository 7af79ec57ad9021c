#include "cuda/device_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace rowmax::test {

namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 30;

void must(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

std::byte* new_arena() {
    void* memory = nullptr;
    must(cudaMalloc(&memory, arena_bytes));
    return static_cast<std::byte*>(memory);
}

}  // namespace

void DeviceMemory::reserve() {
    if (arena_ == nullptr) arena_ = new_arena();
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
    must(cudaStreamSynchronize(nullptr));  // other streams do not wait for it, and what they write would be lost
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

std::byte* DeviceImage::take(std::size_t bytes, std::uintptr_t like) {
    if (arena_ == nullptr) arena_ = new_arena();
    const std::size_t begin = image_.size();
    const std::size_t data = begin + DeviceMemory::guard + like % 256;
    const std::size_t end = (data + bytes + DeviceMemory::guard + 255) / 256 * 256;
    if (end > arena_bytes) throw std::runtime_error("test: the arena is too small");
    image_.resize(end, std::byte{0xff});
    guards_.emplace_back(begin, data);
    guards_.emplace_back(data + bytes, end);
    return arena_ + data;
}

std::size_t DeviceImage::offset_of(const void* address) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(address) - arena_);
}

void DeviceImage::put(std::byte* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(&image_[offset_of(to)], from, bytes);
}

void DeviceImage::send() const {
    must(cudaMemcpy(arena_, image_.data(), image_.size(), cudaMemcpyHostToDevice));
}

void DeviceImage::fetch() {
    must(cudaMemcpy(image_.data(), arena_, image_.size(), cudaMemcpyDeviceToHost));
}

void DeviceImage::get(void* to, const void* from, std::size_t bytes) const {
    if (bytes > 0) std::memcpy(to, &image_[offset_of(from)], bytes);
}

bool DeviceImage::guards_hold() const {
    return std::all_of(guards_.begin(), guards_.end(), [&](const auto& guard) {
        const auto poisoned = [](std::byte b) { return b == std::byte{0xff}; };
        const auto at = [&](std::size_t i) { return image_.begin() + static_cast<std::ptrdiff_t>(i); };
        return std::all_of(at(guard.first), at(guard.second), poisoned);
    });
}

void DeviceImage::give_back() {
    image_.clear();
    guards_.clear();
}

}  // namespace rowmax::test
