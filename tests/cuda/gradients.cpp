#include "cuda/gradients.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "core/mirror.hpp"
#include "cuda/device_memory.hpp"

namespace rowmax::test {

namespace {

DeviceMemory& memory() {
    static DeviceMemory all;
    return all;
}

std::size_t bytes_of(const Array& array) {
    return array.size() * size_of(array.view().dtype);
}

std::byte* on_device(const Array& array, std::uintptr_t like = 0) {
    std::byte* to = memory().take(bytes_of(array), like);
    DeviceMemory::to_device(to, array.view().data, bytes_of(array));
    return to;
}

core::Params on_device(const core::Params& host) {
    static core::Compressed compressed;
    core::Params params = core::mirror(host, compressed, [](const std::byte* first, std::size_t bytes) {
        std::byte* to = memory().take(bytes, reinterpret_cast<std::uintptr_t>(first));
        DeviceMemory::to_device(to, first, bytes);
        return to;
    });
    params.place.cuda = true;
    return params;
}

void finish(const core::Kernel& row) {
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) throw std::runtime_error(std::string(row.name) + ": " + cudaGetErrorString(error));
    EXPECT_TRUE(memory().guards_hold()) << row.name << " wrote outside its outputs";
}

}  // namespace

GradientArrays gradients_on_device(const core::Kernel& row, const core::Problem& problem, const Array& index,
                                   const std::vector<double>& grad_scores, IndexBits bits) {
    core::Params params = on_device(problem.params);
    params.backward = true;
    Array saved(bits == IndexBits::sixteen ? DType::i16 : DType::i32, {static_cast<std::int64_t>(index.size())});
    for (std::size_t i = 0; i < index.size(); ++i) saved.set(i, index[i] > 32767 ? index[i] - 65536 : index[i]);
    if (bits == IndexBits::thirty_two) {
        for (std::size_t i = 0; i < index.size(); ++i) saved.set(i, index[i]);
    }
    const Array scores(DType::f32, {params.pairs.count}, grad_scores.empty() ? std::vector<double>{0} : grad_scores);
    GradientArrays out{Array(params.dtype, {params.q.total_rows, params.dim}, {-12345}),
                       Array(params.dtype, {params.d.total_rows, params.dim}, {-12345})};
    core::Gradients gradients;
    gradients.index = reinterpret_cast<const std::int32_t*>(on_device(saved));
    gradients.narrow = bits == IndexBits::sixteen;
    gradients.scores = on_device(scores);
    gradients.q = on_device(out.q);
    gradients.d = on_device(out.d);
    const std::size_t scratch = row.backward_workspace(params, gradients);
    if (scratch > 0) params.place.workspace = memory().take(scratch);
    row.backward(params, gradients);
    finish(row);
    DeviceMemory::to_host(out.q.view().data, static_cast<std::byte*>(gradients.q), bytes_of(out.q));
    DeviceMemory::to_host(out.d.view().data, static_cast<std::byte*>(gradients.d), bytes_of(out.d));
    memory().give_back();
    return out;
}

Array narrow_index(const core::Kernel& row, const core::Problem& problem) {
    core::Params params = on_device(problem.params);
    params.wants_index = true;
    Array index(DType::i16, {params.pairs.count * params.q.max_length}, {7});
    core::Outputs outputs;
    outputs.scores = memory().take(static_cast<std::size_t>(params.pairs.count) * sizeof(float));
    outputs.index = reinterpret_cast<std::int32_t*>(on_device(index));
    outputs.narrow = true;
    const std::size_t scratch = row.workspace(params, outputs);
    if (scratch > 0) params.place.workspace = memory().take(scratch);
    row.score(params, outputs);
    finish(row);
    DeviceMemory::to_host(index.view().data, reinterpret_cast<std::byte*>(outputs.index), bytes_of(index));
    memory().give_back();
    std::vector<double> tokens = index.values();
    for (double& t : tokens) t = t < -1 ? t + 65536 : t;
    return Array(DType::i32, {static_cast<std::int64_t>(tokens.size())},
                 tokens.empty() ? std::vector<double>{0} : tokens);
}

}  // namespace rowmax::test
