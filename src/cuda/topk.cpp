// Top-k whose scores never leave the device: chunks are scored into scratch memory and merged into the lists there.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>

#include "core/device_topk.hpp"
#include "cuda/device.hpp"
#include "cuda/kernels/topk_arguments.hpp"

namespace rowmax::cuda {

namespace {

std::int64_t list_size(std::int64_t k) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(k)));
}

std::size_t list_bytes(std::int64_t queries, std::int64_t k) {
    return static_cast<std::size_t>(queries * list_size(k)) * sizeof(unsigned long long);
}

std::size_t lists_bytes(std::int64_t queries, std::int64_t k) {
    return 2 * list_bytes(queries, k);
}

void merge(const core::Place& place, const core::TopKChunk& chunk) {
    const CurrentDevice current(place.ordinal);
    wake_device(place.ordinal);
    auto* lists = static_cast<std::byte*>(chunk.lists);
    const std::size_t half = list_bytes(chunk.queries, chunk.k);
    TopKArguments call;
    call.scores = chunk.scores;
    call.list = reinterpret_cast<unsigned long long*>(lists + (chunk.number % 2 == 0 ? 0 : half));
    call.next = reinterpret_cast<unsigned long long*>(lists + (chunk.number % 2 == 0 ? half : 0));
    call.list_size = list_size(chunk.k);
    call.held = std::min(chunk.k, chunk.first);
    call.kept = std::min(chunk.k, chunk.first + chunk.documents);
    call.first = chunk.first;
    call.chunk = chunk.documents;
    call.best = chunk.best;
    call.documents = chunk.index;
    void* parameters[] = {&call};
    check(cudaLaunchKernel(merge_chunk_kernel, dim3(static_cast<unsigned>(chunk.queries)), dim3(topk_threads),
                           parameters, 0, static_cast<cudaStream_t>(place.stream)),
          "launch of top-k");
}

void* take(const core::Place& place, std::size_t bytes) {
    const CurrentDevice current(place.ordinal);
    void* memory = nullptr;
    check(cudaMallocAsync(&memory, bytes, static_cast<cudaStream_t>(place.stream)), "scratch memory");
    return memory;
}

void give_back(const core::Place& place, void* memory) {
    const CurrentDevice current(place.ordinal);
    cudaFreeAsync(memory, static_cast<cudaStream_t>(place.stream));
}

constexpr core::DeviceTopK operations{&lists_bytes, &merge, &take, &give_back};

}  // namespace
}  // namespace rowmax::cuda

namespace rowmax::core {

const DeviceTopK* device_topk() {
    return &cuda::operations;
}

}  // namespace rowmax::core
