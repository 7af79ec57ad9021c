#include "cuda/sort_sources.hpp"

#include <cub/device/device_radix_sort.cuh>

#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/number_sources.cuh"

namespace rowmax::cuda {

namespace {

constexpr std::size_t alignment = 256;

std::int64_t sources_of(const core::Params& params) {
    return params.pairs.count * params.q.max_length;
}

std::size_t list_bytes(const core::Params& params) {
    const std::size_t bytes = static_cast<std::size_t>(sources_of(params)) * sizeof(std::uint32_t);
    return (bytes + alignment - 1) / alignment * alignment;
}

/// Of the row numbers, one past the last included.
int bits_of_rows(const core::Params& params, Side side) {
    const std::int64_t rows = side == Side::queries ? params.q.total_rows : params.d.total_rows;
    int bits = 1;
    while (bits < 32 && (rows >> bits) != 0) ++bits;
    return bits;
}

struct Lists {
    cub::DoubleBuffer<std::uint32_t> rows;
    cub::DoubleBuffer<std::uint32_t> numbers;
};

void sort(void* scratch, std::size_t& bytes, Lists& lists, const core::Params& params, Side side) {
    const int error =
        cub::DeviceRadixSort::SortPairs(scratch, bytes, lists.rows, lists.numbers, sources_of(params), 0,
                                        bits_of_rows(params, side), static_cast<cudaStream_t>(params.place.stream));
    check(error, "sorting sources");
}

std::size_t scratch_bytes(const core::Params& params, Side side) {
    std::size_t bytes = 0;
    Lists none;
    sort(nullptr, bytes, none, params, side);
    return bytes;
}

}  // namespace

std::size_t sort_sources_bytes(const core::Params& params, Side side) {
    return 4 * list_bytes(params) + scratch_bytes(params, side);
}

SortedSources sort_sources(const core::Params& params, const core::Gradients& gradients, Side side, std::byte* memory) {
    const std::size_t list = list_bytes(params);
    const auto at = [&](std::size_t i) { return reinterpret_cast<std::uint32_t*>(memory + i * list); };
    Lists lists{{at(0), at(1)}, {at(2), at(3)}};
    const std::int64_t count = sources_of(params);
    const NumberArguments arguments{params, gradients, {at(0), at(2), count}, side};
    launch(reinterpret_cast<const void*>(&number_sources),
           {(count + number_threads - 1) / number_threads, number_threads}, params.place, &arguments);
    std::size_t bytes = scratch_bytes(params, side);
    sort(memory + 4 * list, bytes, lists, params, side);
    return {lists.rows.Current(), lists.numbers.Current(), count};
}

}  // namespace rowmax::cuda
