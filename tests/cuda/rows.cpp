// The rows under test: those of the GPU's table. Problems are moved there, results back.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "core/mirror.hpp"
#include "cpu/sample.hpp"
#include "cuda/device_memory.hpp"

namespace rowmax::test {

namespace {

std::size_t bytes_of(const Array& array) {
    return array.size() * size_of(array.view().dtype);
}

std::byte* take(DeviceImage& image, const Array& array, bool wanted) {
    if (!wanted) return nullptr;
    std::byte* to = image.take(bytes_of(array));
    image.put(to, array.view().data, bytes_of(array));
    return to;
}

void fetch_back(const DeviceImage& image, const Array& array, const void* from) {
    if (from != nullptr) image.get(array.view().data, from, bytes_of(array));
}

/// How the rows are called that take tokens of a type.
std::string_view end_of_name(DType dtype) {
    switch (dtype) {
        case DType::f16: return ".f16";
        case DType::bf16: return ".bf16";
        case DType::f32: return ".f32";
        case DType::i8: return ".i8";
        case DType::f8e4m3: return ".f8e4m3";
        default: return ".none";
    }
}

/// `row`, or the first of its type that takes the problem where it does not.
const core::Kernel& taking(const core::Kernel& row, const core::Params& params) {
    if (row.refuse(params).empty()) return row;
    for (const core::Kernel& other : core::cuda_kernels()) {
        if (other.missing_features().empty() && other.refuse(params).empty()) return other;
    }
    throw std::runtime_error("test: no row takes the problem");
}

}  // namespace

Results run(const core::Kernel& row, const core::Problem& problem, Want want, int) {
    static DeviceImage image;
    image.give_back();
    const auto copy = [](const std::byte* first, std::size_t bytes) {
        std::byte* to = image.take(bytes, reinterpret_cast<std::uintptr_t>(first));
        image.put(to, first, bytes);
        return to;
    };
    core::Compressed compressed;
    core::Params params = core::mirror(problem.params, compressed, copy);
    params.place.cuda = true;
    params.wants_index = want != Want::scores;
    Results results = no_results(params, want);
    core::Outputs outputs;
    outputs.scores = take(image, results.scores, true);
    outputs.index = reinterpret_cast<std::int32_t*>(take(image, results.index, want != Want::scores));
    outputs.similarity = take(image, results.similarity, want == Want::all);
    const core::Kernel& chosen = taking(row, params);
    const std::size_t scratch = chosen.workspace(params, outputs);
    if (scratch > 0) params.place.workspace = image.take(scratch);
    image.send();
    chosen.score(params, outputs);
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
        // Nothing after this would work: say where it happened, and end.
        ADD_FAILURE() << chosen.name << ": " << cudaGetErrorString(error);
        throw std::runtime_error(cudaGetErrorString(error));
    }
    image.fetch();
    fetch_back(image, results.scores, outputs.scores);
    fetch_back(image, results.index, outputs.index);
    fetch_back(image, results.similarity, outputs.similarity);
    EXPECT_TRUE(image.guards_hold()) << chosen.name << " wrote outside its outputs";
    return results;
}

std::vector<const core::Kernel*> rows_for(DType dtype) {
    std::vector<const core::Kernel*> rows = rows_named(end_of_name(dtype));
    std::erase_if(rows, [](const core::Kernel* row) { return row->write_tokens != nullptr; });  // of hidden states
    return rows;
}

std::vector<const core::Kernel*> rows_named(std::string_view end) {
    std::vector<const core::Kernel*> rows;
    for (const core::Kernel& row : core::cuda_kernels()) {
        if (row.name.ends_with(end) && row.missing_features().empty()) rows.push_back(&row);
    }
    return rows;
}

}  // namespace rowmax::test
