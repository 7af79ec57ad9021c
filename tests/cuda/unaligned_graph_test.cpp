// Documents at odd addresses, scored from CUDA graphs: launches in a row, and new documents between them, give the bits
// of calls that are waited for. There copies arrive at barriers by themselves, and the next kernel begins while the one
// before it ends.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "cuda/device_memory.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::test {
namespace {

struct Call {
    const char* name;
    DType dtype;
    std::int64_t lq;
    std::int64_t dim;
    std::int64_t pitch;  ///< elements from token to token
    std::int64_t shift;  ///< elements from a multiple of 256 bytes to the first token
    bool index = false;
    bool high = false;  ///< TF32
};

void PrintTo(const Call& call, std::ostream* to) {
    *to << call.name;
}

constexpr Call calls[] = {
    {"few", DType::f16, 32, 128, 128, 1},
    {"few_pitch", DType::f16, 32, 96, 97, 0},
    {"few_index", DType::bf16, 60, 128, 128, 3, true},
    {"few_128_index", DType::f16, 128, 128, 129, 1, true},
    {"many", DType::f16, 300, 128, 128, 1},
    {"many_index", DType::bf16, 300, 130, 131, 1, true},
    {"wide", DType::f16, 32, 193, 193, 0},
    {"wide_many_index", DType::bf16, 200, 321, 321, 5, true},
    {"split", DType::f32, 32, 128, 128, 1},
    {"split_index", DType::f32, 60, 193, 193, 2, true},
    {"tf32", DType::f32, 32, 128, 129, 1, false, true},
    {"tf32_128_index", DType::f32, 128, 66, 66, 1, true, true},
    {"tf32_many", DType::f32, 300, 128, 128, 1, false, true},
    {"int8", DType::i8, 32, 128, 128, 1},
    {"int8_many", DType::i8, 300, 130, 130, 3},
    {"int8_index", DType::i8, 128, 250, 251, 3, true},
    {"float8", DType::f8e4m3, 64, 128, 129, 1},
    {"float8_many_index", DType::f8e4m3, 200, 128, 128, 7, true},
};

/// Numbers from 1/2 to 2 of either sign, or any int8.
class RandomBits {
  public:
    explicit RandomBits(std::uint64_t seed) : state_(seed * 2 + 1) {}
    void fill(std::byte* to, std::int64_t elements, DType dtype) {
        for (std::int64_t i = 0; i < elements; ++i) {
            const std::uint32_t bits = bits_of(dtype);
            std::memcpy(to + i * static_cast<std::int64_t>(size_of(dtype)), &bits, size_of(dtype));
        }
    }

  private:
    std::uint32_t bits_of(DType dtype) {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        const auto random = static_cast<std::uint32_t>(state_ >> 32);
        switch (dtype) {
            case DType::f16: return (random & 0x83ffU) | 0x3800U;
            case DType::bf16: return (random & 0x807fU) | 0x3f00U;
            case DType::f8e4m3: return (random & 0x87U) | 0x30U;
            case DType::i8: return random & 0xffU;
            default: return (random & 0x807fffffU) | 0x3f000000U;
        }
    }
    std::uint64_t state_;
};

class UnalignedGraphs : public ::testing::TestWithParam<Call> {
  protected:
    static constexpr std::int64_t documents = 300;
    static constexpr std::int64_t length = 150;
    static constexpr int versions = 3;
    /// Fewer for tools that slow kernels down.
    static int replays() {
        const char* wanted = std::getenv("ROWMAX_TEST_REPLAYS");
        return wanted != nullptr ? std::max(1, std::atoi(wanted)) : 240;
    }

    UnalignedGraphs() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
    ~UnalignedGraphs() override {
        cudaStreamDestroy(stream_);
        memory_.give_back();
    }

    /// Documents that are read, and what is copied there.
    void make_documents() {
        const Call& call = GetParam();
        const std::size_t size = size_of(call.dtype);
        bytes_ = static_cast<std::size_t>((documents * length - 1) * call.pitch + call.dim) * size;
        std::vector<std::byte> host(bytes_);
        for (int v = 0; v < versions; ++v) {
            RandomBits(static_cast<std::uint64_t>(v + 7))
                .fill(host.data(), static_cast<std::int64_t>(bytes_ / size), call.dtype);
            version_[v] = memory_.take(bytes_);
            DeviceMemory::to_device(version_[v], host.data(), bytes_);
        }
        documents_ = memory_.take(bytes_, static_cast<std::uintptr_t>(call.shift) * size);
    }

    void make_request() {
        const Call& call = GetParam();
        make_documents();
        const std::int64_t elements = call.lq * call.dim;
        std::vector<std::byte> host(static_cast<std::size_t>(elements) * size_of(call.dtype));
        RandomBits(3).fill(host.data(), elements, call.dtype);
        std::byte* q = memory_.take(host.size());
        DeviceMemory::to_device(q, host.data(), host.size());
        const std::int64_t shape[] = {documents, length, call.dim};
        const std::int64_t stride[] = {length * call.pitch, call.pitch, 1};
        request_.q.tokens = {q, call.dtype, {call.lq, call.dim}};
        request_.d.tokens = TensorView(documents_, call.dtype, shape, stride);
        request_.options.device = {Device::Kind::cuda, 0, stream_, nullptr, nullptr};
        if (call.high) request_.options.precision = Precision::high;
        if (call.dtype == DType::i8 || call.dtype == DType::f8e4m3) add_scales();
    }
    void add_scales() {
        const std::int64_t rows = documents * length;
        std::vector<float> host(static_cast<std::size_t>(std::max(rows, GetParam().lq)));
        for (std::size_t i = 0; i < host.size(); ++i) host[i] = 0.5F + static_cast<float>(i * 37 % 101) / 128;
        const auto place = [&](std::int64_t count) {
            const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
            std::byte* to = memory_.take(bytes);
            DeviceMemory::to_device(to, host.data(), bytes);
            return to;
        };
        request_.q.scale = {place(GetParam().lq), DType::f32, {GetParam().lq}};
        request_.d.scale = {place(rows), DType::f32, {documents, length}};
    }

    /// Scores, and winners behind them.
    static constexpr std::size_t score_bytes = documents * sizeof(float);
    [[nodiscard]] std::size_t result_bytes() const {
        return score_bytes + (GetParam().index ? static_cast<std::size_t>(documents * GetParam().lq) * 4 : 0);
    }
    void score_to(std::byte* to) const {
        ScoreOutputs outputs;
        outputs.scores = {to, DType::f32, {documents}};
        if (GetParam().index) outputs.index = {to + score_bytes, DType::i32, {documents, GetParam().lq}};
        score(request_, outputs);
    }
    [[nodiscard]] std::vector<std::byte> fetched(const std::byte* from) const {
        std::vector<std::byte> host(result_bytes());
        DeviceMemory::to_host(host.data(), from, host.size());
        return host;
    }
    void put_version(int v) { cudaMemcpyAsync(documents_, version_[v], bytes_, cudaMemcpyDeviceToDevice, stream_); }
    void finish() { ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

    cudaGraphExec_t captured(const std::function<void()>& work) {
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t replay = nullptr;
        cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
        work();
        EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
        EXPECT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
        cudaGraphDestroy(graph);
        return replay;
    }

    DeviceMemory memory_;
    cudaStream_t stream_ = nullptr;
    ScoreRequest request_;
    std::byte* documents_ = nullptr;
    std::byte* version_[versions] = {};
    std::size_t bytes_ = 0;
};

TEST_P(UnalignedGraphs, GiveTheBitsOfCalls) {
    make_request();
    std::vector<std::byte> want[versions];
    std::byte* const first = memory_.take(result_bytes());
    for (int v = 0; v < versions; ++v) {
        put_version(v);
        score_to(first);
        finish();
        want[v] = fetched(first);
    }
    // Three calls in a row, of which the last two begin while the one before them ends.
    std::byte* const in_a_row[] = {first, memory_.take(result_bytes()), memory_.take(result_bytes())};
    const cudaGraphExec_t replay = captured([&] {
        for (std::byte* to : in_a_row) score_to(to);
    });
    const int count = replays();
    std::vector<std::byte*> kept;
    for (int i = 0; i < count; ++i) kept.push_back(memory_.take(result_bytes()));
    for (int i = 0; i < count; ++i) {
        put_version(i % versions);
        ASSERT_EQ(cudaGraphLaunch(replay, stream_), cudaSuccess);
        cudaMemcpyAsync(kept[static_cast<std::size_t>(i)], in_a_row[i % 3], result_bytes(), cudaMemcpyDeviceToDevice,
                        stream_);
    }
    finish();
    int wrong = 0;
    for (int i = 0; i < count; ++i) wrong += fetched(kept[static_cast<std::size_t>(i)]) == want[i % versions] ? 0 : 1;
    EXPECT_EQ(wrong, 0) << "of " << count << " replays";
    // Nothing between the launches.
    for (int i = 0; i < count; ++i) ASSERT_EQ(cudaGraphLaunch(replay, stream_), cudaSuccess);
    finish();
    for (const std::byte* from : in_a_row) EXPECT_EQ(fetched(from), want[(count - 1) % versions]);
    EXPECT_TRUE(memory_.guards_hold());
    cudaGraphExecDestroy(replay);
}

INSTANTIATE_TEST_SUITE_P(Cuda, UnalignedGraphs, ::testing::ValuesIn(calls),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace rowmax::test
