// Calls through the public interface with arrays in a GPU's memory: streams, scratch memory, graphs.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "cpu/sample.hpp"
#include "cuda/device.hpp"
#include "cuda/device_memory.hpp"

namespace rowmax::test {
namespace {

struct Allocations {
    DeviceMemory* memory = nullptr;
    int count = 0;
    std::size_t bytes = 0;
};

void* allocate(void* context, std::size_t bytes) {
    auto& allocations = *static_cast<Allocations*>(context);
    ++allocations.count;
    allocations.bytes += bytes;
    return allocations.memory->take(bytes);
}

void* no_memory(void*, std::size_t) {
    return nullptr;
}

class Calls : public ::testing::Test {
  protected:
    static constexpr std::int64_t queries = 2;
    static constexpr std::int64_t documents = 9;

    Calls() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
    ~Calls() override {
        cudaStreamDestroy(stream_);
        memory_.give_back();
    }

    /// A request of `lq` query tokens whose arrays lie on the GPU.
    ScoreRequest request(std::int64_t lq, std::int64_t ld, std::int64_t dim = 64, bool normalize = false) {
        sample_ = std::make_unique<Sample>(
            Shape{Layout::cross, DType::f16, queries, documents, lq, ld, dim, false, normalize, 3},
            small_integers(dim));
        ScoreRequest request = sample_->request;
        request.q.tokens.data = moved(request.q.tokens);
        request.d.tokens.data = moved(request.d.tokens);
        request.options.device = {Device::Kind::cuda, 0, stream_, nullptr, nullptr};
        return request;
    }

    std::byte* moved(const TensorView& view) {
        const std::size_t bytes = static_cast<std::size_t>(view.numel()) * size_of(view.dtype);
        std::byte* to = memory_.take(bytes);
        DeviceMemory::to_device(to, view.data, bytes);
        return to;
    }

    TensorView scores_on_device() {
        return {memory_.take(queries * documents * sizeof(float)), DType::f32, {queries, documents}};
    }

    std::vector<double> truth() const {
        return core::reference::score(core::make_problem(sample_->request).params).scores;
    }

    std::vector<double> fetched(const TensorView& scores) {
        cudaStreamSynchronize(stream_);
        Array host(DType::f32, {queries, documents});
        DeviceMemory::to_host(host.view().data, static_cast<std::byte*>(scores.data),
                              queries * documents * sizeof(float));
        return host.values();
    }

    DeviceMemory memory_;
    cudaStream_t stream_ = nullptr;
    std::unique_ptr<Sample> sample_;
};

TEST_F(Calls, ScoreOnAStream) {
    for (const std::int64_t lq : {1, 32, 200}) {
        const ScoreRequest r = request(lq, 77);
        const TensorView scores = scores_on_device();
        score(r, {scores, {}, {}});
        EXPECT_EQ(fetched(scores), truth());
    }
}

TEST_F(Calls, ScratchMemoryComesFromTheCaller) {
    ScoreRequest r = request(600, 77);
    Allocations allocations{&memory_};
    r.options.device.allocate = &allocate;
    r.options.device.context = &allocations;
    const TensorView scores = scores_on_device();
    score(r, {scores, {}, {}});
    EXPECT_EQ(fetched(scores), truth());
    EXPECT_EQ(allocations.count, 1);
    // The contract: four bytes for each pair and group of 16 query tokens.
    EXPECT_LE(allocations.bytes, std::size_t{4 * queries * documents * 38});
    EXPECT_TRUE(memory_.guards_hold());
    r.options.device.allocate = &no_memory;
    try {
        score(r, {scores, {}, {}});
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    }
}

TEST_F(Calls, AGraphReplaysOnNewData) {
    for (const std::int64_t lq : {32, 200, 600}) {
        for (const std::int64_t ld : {77, 3000}) {
            const ScoreRequest r = request(lq, ld);
            const TensorView scores = scores_on_device();
            score(r, {scores, {}, {}});  // loads what a first call loads
            cudaGraph_t graph = nullptr;
            cudaGraphExec_t replay = nullptr;
            cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
            score(r, {scores, {}, {}});
            ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
            ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
            const Sample other(Shape{Layout::cross, DType::f16, queries, documents, lq, ld, 64, false, false, 4},
                               small_integers(64));
            const TensorView d = other.request.d.tokens;
            cudaStreamSynchronize(stream_);
            DeviceMemory::to_device(static_cast<std::byte*>(r.d.tokens.data), d.data,
                                    static_cast<std::size_t>(d.numel()) * 2);
            cudaGraphLaunch(replay, stream_);
            ScoreRequest mixed = sample_->request;
            mixed.d.tokens = d;
            EXPECT_EQ(fetched(scores), core::reference::score(core::make_problem(mixed).params).scores)
                << lq << " " << ld;
            cudaGraphExecDestroy(replay);
            cudaGraphDestroy(graph);
        }
    }
}

TEST_F(Calls, TheRowDependsOnRowsDimensionsAndNorms) {
    if (cuda::device_info(0).capability != 90) GTEST_SKIP();
    const auto chosen = [&](std::int64_t lq, std::int64_t dim, bool normalize) {
        for (const KernelInfo& row : explain_dispatch(request(lq, 8, dim, normalize))) {
            if (row.chosen) return std::string(row.name);
        }
        return std::string();
    };
    for (const bool normalize : {false, true}) {
        EXPECT_EQ(chosen(32, 128, normalize), "cuda.sm90.few.f16");
        EXPECT_EQ(chosen(64, 128, normalize), normalize ? "cuda.sm90.many.f16" : "cuda.sm90.few.f16");
        EXPECT_EQ(chosen(65, 192, normalize), "cuda.sm90.many.f16");
        EXPECT_EQ(chosen(1, 200, normalize), "cuda.sm90.wide.f16");
        EXPECT_EQ(chosen(300, 4096, normalize), "cuda.sm90.wide.f16");
        EXPECT_EQ(chosen(32, 193, normalize), "cuda.sm90.wide.f16");  // tokens 386 bytes apart
    }
}

// Nobody steps along a dimension of size 1: whatever its stride, it is in nobody's way.
TEST_F(Calls, SizesOfOneKeepTheFastRow) {
    if (cuda::device_info(0).capability != 90) GTEST_SKIP();
    const ScoreRequest one_token = request(8, 1);
    const ScoreRequest plain = request(8, 77);
    const auto expect_fast = [](const ScoreRequest& r, const char* what) {
        for (const KernelInfo& row : explain_dispatch(r)) {
            EXPECT_EQ(row.chosen, row.name == "cuda.sm90.few.f16") << what << ": " << row.name << ": " << row.refusal;
        }
    };
    expect_fast(one_token, "documents of one token");
    ScoreRequest odd = plain;
    odd.d.tokens.shape = {1, 77, 64, 0};
    odd.d.tokens.stride = {3, 64, 1, 0};
    expect_fast(odd, "one document");
    odd = plain;
    odd.pairing = Pairing::grouped;
    odd.d.tokens = TensorView(plain.d.tokens.data, DType::f16, {queries, 1, 77, 64});
    odd.d.tokens.stride[1] = 3;
    expect_fast(odd, "one candidate a query");
    odd = plain;
    odd.d.tokens.stride[0] = 0;
    expect_fast(odd, "a broadcast document");
    const Array starts(DType::i32, {3}, {0, 1, 1});
    odd = plain;
    odd.d.tokens = TensorView(plain.d.tokens.data, DType::f16, {1, 64});
    odd.d.cu_seqlens = starts.view();
    odd.d.cu_seqlens.data = moved(starts.view());
    expect_fast(odd, "one packed token");
}

TEST_F(Calls, MemoryOfTheCpuIsNotTakenForTheDevices) {
    const ScoreRequest r = request(8, 8);
    for (const KernelInfo& row : explain_dispatch(r))
        EXPECT_EQ(row.chosen, row.name == "cuda.sm90.few.f16") << row.name;
    for (const KernelInfo& row : explain_dispatch(sample_->request)) {
        if (row.backend != "cuda") continue;
        EXPECT_EQ(row.refusal, "memory of the CPU");
    }
}

}  // namespace
}  // namespace rowmax::test
