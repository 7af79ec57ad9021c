#include "gpu/native/random_request.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <random>
#include <stdexcept>
#include <vector>

namespace rowmax::bench {

namespace {

constexpr int replays = 15;

void check(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

/// The bits of a float16 of a number between 2^-14 and 2.
std::uint16_t half_bits(float x) {
    const float size = std::min(std::max(std::fabs(x), 0x1p-14F), 1.99F);
    int exponent = 0;
    const float fraction = std::frexp(size, &exponent);  // from 0.5 on, below 1
    const auto bits = static_cast<std::uint16_t>((exponent + 14) << 10 | static_cast<int>((fraction - 0.5F) * 2048));
    return static_cast<std::uint16_t>(bits | (x < 0 ? 0x8000 : 0));
}

// 4 MiB of numbers, again and again.
void fill_random(std::byte* to, std::int64_t bytes) {
    static std::vector<std::uint16_t> block = [] {
        std::mt19937 generator(1);
        std::normal_distribution<float> normal;
        std::vector<std::uint16_t> made(std::size_t{1} << 21);
        for (std::uint16_t& x : made) x = half_bits(normal(generator) / 11);
        return made;
    }();
    const auto step = static_cast<std::int64_t>(block.size() * sizeof(std::uint16_t));
    for (std::int64_t at = 0; at < bytes; at += step) {
        check(cudaMemcpy(to + at, block.data(), static_cast<std::size_t>(std::min(step, bytes - at)),
                         cudaMemcpyHostToDevice));
    }
}

std::vector<std::int32_t> ragged_offsets(const Shape& shape) {
    std::mt19937 generator(1);
    std::normal_distribution<double> normal(std::log(103), 0.6);
    std::vector<std::int32_t> offsets{0};
    for (std::int64_t i = 0; i < shape.documents; ++i) {
        const double length = std::clamp(std::exp(normal(generator)), 8.0, static_cast<double>(shape.ld));
        offsets.push_back(offsets.back() + static_cast<std::int32_t>(length));
    }
    return offsets;
}

}  // namespace

void* device_memory(std::int64_t bytes) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, static_cast<std::size_t>(bytes)) != cudaSuccess) throw std::bad_alloc();
    return memory;
}

ScoreRequest random_request(const Shape& shape, cudaStream_t stream) {
    const auto tokens = [&](std::int64_t count, std::int64_t shift) {
        const std::int64_t bytes = count * shape.dim * 2 + shift;
        auto* memory = static_cast<std::byte*>(device_memory(bytes));
        fill_random(memory, bytes);
        return memory + shift;
    };
    ScoreRequest request;
    request.options.device = {Device::Kind::cuda, 0, stream, nullptr, nullptr};
    request.q.tokens = {tokens(shape.queries * shape.lq, 0), DType::f16, {shape.queries, shape.lq, shape.dim}};
    if (!shape.ragged) {
        request.d.tokens = {
            tokens(shape.documents * shape.ld, shape.shift), DType::f16, {shape.documents, shape.ld, shape.dim}};
        return request;
    }
    const std::vector<std::int32_t> offsets = ragged_offsets(shape);
    void* on_device = device_memory(static_cast<std::int64_t>(offsets.size()) * 4);
    check(cudaMemcpy(on_device, offsets.data(), offsets.size() * 4, cudaMemcpyHostToDevice));
    request.d.tokens = {tokens(offsets.back(), shape.shift), DType::f16, {offsets.back(), shape.dim}};
    request.d.cu_seqlens = {on_device, DType::i32, {shape.documents + 1}};
    request.d.max_seqlen = shape.ld;
    return request;
}

Times replayed(cudaStream_t stream, int calls, const std::function<void()>& call) {
    call();
    check(cudaStreamSynchronize(stream));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < calls; ++i) call();
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&replay, graph, 0));
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    std::vector<double> found;
    for (int i = -2; i < replays; ++i) {
        float ms = 0;
        check(cudaEventRecord(begin, stream));
        check(cudaGraphLaunch(replay, stream));
        check(cudaEventRecord(end, stream));
        check(cudaEventSynchronize(end));
        check(cudaEventElapsedTime(&ms, begin, end));
        if (i >= 0) found.push_back(ms / calls);
    }
    check(cudaEventDestroy(begin));
    check(cudaEventDestroy(end));
    check(cudaGraphExecDestroy(replay));
    check(cudaGraphDestroy(graph));
    std::sort(found.begin(), found.end());
    const auto at = [&](double share) { return found[static_cast<std::size_t>(share * (replays - 1))]; };
    return {at(0.5), at(0.1), at(0.9)};
}

}  // namespace rowmax::bench
