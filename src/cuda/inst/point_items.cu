#include <cub/device/device_scan.cuh>

#include "cuda/count_kept.hpp"
#include "cuda/device.hpp"
#include "cuda/kernels/point_items.cuh"

namespace rowmax::cuda {

const PointItemKernels point_item_kernels{reinterpret_cast<const void*>(&straighten_offsets),
                                          reinterpret_cast<const void*>(&mark_kept),
                                          reinterpret_cast<const void*>(&number_choices)};

std::size_t count_kept_bytes(std::int64_t count) {
    std::size_t bytes = 0;
    std::int32_t* none = nullptr;
    check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, none, none, count), "counting kept points");
    return bytes;
}

void count_kept(std::byte* memory, std::int32_t* marks, std::int64_t count, const core::Place& place) {
    std::size_t bytes = count_kept_bytes(count);
    check(cub::DeviceScan::ExclusiveSum(memory, bytes, marks, marks, count, static_cast<cudaStream_t>(place.stream)),
          "counting kept points");
}

}  // namespace rowmax::cuda
