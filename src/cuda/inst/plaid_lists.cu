// Candidates of a PLAID search: starts of lists by a prefix sum, a mark for every document in the lists of the cells,
// and the marked documents in order.
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/plaid_arguments.hpp"

namespace rowmax::cuda {

namespace {

/// Of a list; one that lies counts as empty.
struct LengthOf {
    core::Numbers lengths;
    std::int64_t entries = 0;

    __host__ __device__ std::int64_t operator()(std::int64_t centroid) const {
        const std::int64_t length = lengths.at(centroid);
        return length < 0 || length > entries ? 0 : length;
    }
};

/// A thread block a cell.
__global__ void __launch_bounds__(plaid_threads) mark_documents(const __grid_constant__ CandidateArguments call) {
    const std::int64_t cell = call.cells.at(blockIdx.x);
    if (cell < 0 || cell >= call.lengths.count) return;
    const std::int64_t begin = call.starts[cell];
    const std::int64_t length = LengthOf{call.lengths, call.lists.count}(cell);
    const std::int64_t end = begin + length < call.lists.count ? begin + length : call.lists.count;
    for (std::int64_t entry = begin + threadIdx.x; entry < end; entry += plaid_threads) {
        const std::int64_t document = call.lists.at(entry);
        if (document >= 0 && document < call.documents) call.marks[document] = 1;
    }
}

constexpr std::size_t aligned(std::size_t bytes) {
    constexpr std::size_t alignment = 256;
    return (bytes + alignment - 1) / alignment * alignment;
}

std::size_t starts_bytes(const CandidateArguments& call) {
    return aligned(static_cast<std::size_t>(call.lengths.count) * sizeof(std::int64_t));
}
std::size_t marks_bytes(const CandidateArguments& call) {
    return aligned(static_cast<std::size_t>(call.documents));
}

void find_starts(const CandidateArguments& call, void* scratch, std::size_t& bytes, std::int64_t* starts,
                 cudaStream_t stream) {
    const auto lengths = thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                                         LengthOf{call.lengths, call.lists.count});
    check(cub::DeviceScan::ExclusiveSum(scratch, bytes, lengths, starts, static_cast<int>(call.lengths.count), stream),
          "starts of lists");
}

void select(const CandidateArguments& call, void* scratch, std::size_t& bytes, std::int64_t* found, std::int64_t* count,
            cudaStream_t stream) {
    check(cub::DeviceSelect::Flagged(scratch, bytes, thrust::counting_iterator<std::int64_t>(0), call.marks, found,
                                     count, static_cast<int>(call.documents), stream),
          "collecting documents");
}

std::size_t tools_bytes(const CandidateArguments& call) {
    std::size_t scan = 0;
    std::size_t selection = 0;
    find_starts(call, nullptr, scan, nullptr, nullptr);
    select(call, nullptr, selection, nullptr, nullptr, nullptr);
    return aligned(scan > selection ? scan : selection);
}

}  // namespace

std::size_t candidate_bytes(const CandidateArguments& call) {
    return starts_bytes(call) + marks_bytes(call) + tools_bytes(call);
}

void find_candidates(const core::Place& place, CandidateArguments call, std::byte* memory, std::int64_t* found,
                     std::int64_t* count) {
    const auto stream = static_cast<cudaStream_t>(place.stream);
    auto* starts = reinterpret_cast<std::int64_t*>(memory);
    call.starts = starts;
    call.marks = reinterpret_cast<std::uint8_t*>(memory + starts_bytes(call));
    void* tools = memory + starts_bytes(call) + marks_bytes(call);
    std::size_t bytes = tools_bytes(call);
    find_starts(call, tools, bytes, starts, stream);
    check(cudaMemsetAsync(call.marks, 0, static_cast<std::size_t>(call.documents), stream), "cudaMemsetAsync");
    if (call.cells.count > 0) {
        launch(reinterpret_cast<const void*>(&mark_documents), {call.cells.count, plaid_threads}, place, &call);
    }
    select(call, tools, bytes, found, count, stream);
}

}  // namespace rowmax::cuda
