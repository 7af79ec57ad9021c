// What a call on a CUDA device costs the host, from C++: rowmax::score() until it returns, its parts, and beside them
// the launch of a kernel that does nothing. Prints one JSON line a case.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "core/registry.hpp"
#include "gpu/native/nothing.hpp"

namespace {

using rowmax::DType;
using rowmax::ScoreRequest;
using Clock = std::chrono::steady_clock;

constexpr int calls_per_batch = 40;  // fewer than a stream queues before it makes the host wait
constexpr int batches = 60;

struct Case {
    std::string name;
    std::int64_t documents, lq, ld, dim;
    bool packed = false;
};

template <class Call>
std::vector<double> microseconds(Call call) {
    call();
    std::vector<double> found;
    for (int i = 0; i < batches; ++i) {
        cudaDeviceSynchronize();
        const auto start = Clock::now();
        for (int k = 0; k < calls_per_batch; ++k) call();
        found.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls_per_batch);
    }
    cudaDeviceSynchronize();
    std::sort(found.begin(), found.end());
    return found;
}

double at(const std::vector<double>& sorted, double q) {
    return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
}

void* zeros(std::int64_t bytes) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, static_cast<std::size_t>(bytes)) != cudaSuccess) throw std::bad_alloc();
    cudaMemset(memory, 0, static_cast<std::size_t>(bytes));
    return memory;
}

// Never freed: the program ends with its last case.
ScoreRequest request_of(const Case& c, cudaStream_t stream) {
    ScoreRequest request;
    request.q.tokens = {zeros(c.lq * c.dim * 2), DType::f16, {1, c.lq, c.dim}};
    request.d.tokens = {zeros(c.documents * c.ld * c.dim * 2), DType::f16, {c.documents, c.ld, c.dim}};
    if (c.packed) {
        std::vector<std::int32_t> offsets;
        for (std::int64_t i = 0; i <= c.documents; ++i) offsets.push_back(static_cast<std::int32_t>(i * c.ld));
        void* on_device = zeros(static_cast<std::int64_t>(offsets.size()) * 4);
        cudaMemcpy(on_device, offsets.data(), offsets.size() * 4, cudaMemcpyHostToDevice);
        request.d.tokens = {request.d.tokens.data, DType::f16, {c.documents * c.ld, c.dim}};
        request.d.cu_seqlens = {on_device, DType::i32, {c.documents + 1}};
        request.d.max_seqlen = c.ld;
    }
    request.options.device = {rowmax::Device::Kind::cuda, 0, stream, nullptr, nullptr};
    return request;
}

nlohmann::json line(const std::string& name, const std::string& impl, const std::vector<double>& us) {
    return {{"case", name},
            {"impl", impl},
            {"dtype", "float16"},
            {"median_ms", at(us, 0.5) * 1e-3},
            {"p10_ms", at(us, 0.1) * 1e-3},
            {"p90_ms", at(us, 0.9) * 1e-3}};
}

nlohmann::json measure(const Case& c, cudaStream_t stream) {
    const ScoreRequest request = request_of(c, stream);
    const rowmax::TensorView scores(zeros(c.documents * 4), DType::f32, {1, c.documents});
    rowmax::score(request, {scores, {}, {}});  // the first use of the device loads the kernels
    const rowmax::core::Problem problem = rowmax::core::make_problem(request);
    const rowmax::core::Outputs outputs = rowmax::core::check_outputs(problem, {scores, {}, {}});
    const rowmax::core::Kernel& row = rowmax::core::choose(problem.params, {});
    nlohmann::json found = line("host-cost " + c.name, "rowmax C++", microseconds([&] {
                                    rowmax::score(request, {scores, {}, {}});
                                }));
    found["kernel"] = std::string(row.name);
    found["problem_us"] = at(microseconds([&] { rowmax::core::make_problem(request); }), 0.5);
    found["choose_us"] = at(microseconds([&] { rowmax::core::choose(problem.params, {}); }), 0.5);
    found["row_us"] = at(microseconds([&] { row.score(problem.params, outputs); }), 0.5);
    return found;
}

nlohmann::json launch(const std::string& impl, const void* kernel, cudaStream_t stream) {
    char bytes[1024] = {};
    void* parameters[] = {bytes};
    return line("host-cost launch", impl,
                microseconds([&] { cudaLaunchKernel(kernel, dim3(1), dim3(32), parameters, 0, stream); }));
}

}  // namespace

int main() {
    cudaStream_t stream = nullptr;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
        std::cerr << "there is no CUDA device\n";
        return 4;
    }
    std::cout << launch("empty kernel", rowmax::bench::empty_kernel(), stream).dump() << '\n';
    std::cout << launch("empty kernel of 1024 bytes", rowmax::bench::empty_kernel_of_a_kilobyte(), stream).dump()
              << '\n';
    const Case cases[] = {{"tiny-64", 64, 32, 180, 128},
                          {"text-1k", 1000, 32, 300, 128},
                          {"one document", 1, 128, 64, 128},
                          {"packed", 64, 32, 180, 128, true}};
    for (const Case& c : cases) std::cout << measure(c, stream).dump() << '\n';
}
