#include "cuda/radix_sort.hpp"

#include <cub/device/device_radix_sort.cuh>

#include "cuda/device.hpp"

namespace rowmax::cuda {

namespace {

struct Buffers {
    cub::DoubleBuffer<std::uint32_t> keys;
    cub::DoubleBuffer<std::uint32_t> numbers;
};

std::size_t list_bytes(std::int64_t count) {
    constexpr std::size_t alignment = 256;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(std::uint32_t);
    return (bytes + alignment - 1) / alignment * alignment;
}

int bits_of(std::int64_t largest) {
    int bits = 1;
    while (bits < 32 && (largest >> bits) != 0) ++bits;
    return bits;
}

/// A call asks several times for the same sort, and the answer takes longer than launching a kernel.
struct KnownScratch {
    int device = -1;
    int bits = 0;
    std::int64_t count = -1;
    std::size_t bytes = 0;
};

std::size_t scratch_bytes(std::int64_t count, std::int64_t largest) {
    thread_local KnownScratch known;
    const int bits = bits_of(largest);
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    if (known.device == device && known.bits == bits && known.count == count) return known.bytes;
    std::size_t bytes = 0;
    Buffers none;
    check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, none.keys, none.numbers, count, 0, bits), "sorting");
    known = {device, bits, count, bytes};
    return bytes;
}

std::uint32_t* list_at(std::byte* memory, std::int64_t count, std::size_t i) {
    return reinterpret_cast<std::uint32_t*>(memory + i * list_bytes(count));
}

}  // namespace

std::size_t sort_bytes(std::int64_t count, std::int64_t largest) {
    return 4 * list_bytes(count) + scratch_bytes(count, largest);
}

SortLists lists_to_sort(std::byte* memory, std::int64_t count) {
    return {list_at(memory, count, 0), list_at(memory, count, 2), count};
}

SortLists sort_by_key(std::byte* memory, std::int64_t count, std::int64_t largest, const core::Place& place) {
    Buffers buffers{{list_at(memory, count, 0), list_at(memory, count, 1)},
                    {list_at(memory, count, 2), list_at(memory, count, 3)}};
    std::size_t bytes = scratch_bytes(count, largest);
    check(cub::DeviceRadixSort::SortPairs(memory + 4 * list_bytes(count), bytes, buffers.keys, buffers.numbers, count,
                                          0, bits_of(largest), static_cast<cudaStream_t>(place.stream)),
          "sorting");
    return {buffers.keys.Current(), buffers.numbers.Current(), count};
}

}  // namespace rowmax::cuda
