#include "cli/bench/on_device.hpp"

#include <algorithm>
#include <chrono>

#include "core/mirror.hpp"
#include "cpu/sample.hpp"
#include "stream/device_arrays.hpp"

namespace rowmax::cli::bench {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How often the documents stand one behind the other, so that they do not fit a device's caches.
std::int64_t times_of(const Shape& shape) {
    return shape.documents == 1 ? 1 : 16;
}

test::Sample sample_of(const Shape& shape, DType dtype) {
    return test::Sample({.dtype = dtype,
                         .queries = shape.queries,
                         .documents = shape.documents,
                         .lq = shape.query_length,
                         .ld = shape.document_length,
                         .dim = shape.dim},
                        test::small_integers(shape.dim));
}

}  // namespace

struct DeviceBench::State {
    State(const Shape& s, DType dtype, const stream::DeviceBackend& backend, int ordinal)
        : shape(s), runtime(*backend.runtime), choose(backend.choose), arrays(backend, ordinal) {
        const test::Sample sample = sample_of(shape, dtype);
        const core::Problem problem = core::make_problem(sample.request);
        params = problem.params;
        const std::int64_t times = times_of(shape);
        const std::int64_t token_bytes = params.dim * static_cast<std::int64_t>(size_of(dtype));
        params.q = core::mirror(params.q, token_bytes,
                                [&](const std::byte* first, std::size_t bytes) { return arrays.put(first, bytes); });
        const auto block = static_cast<std::size_t>(params.d.total_rows * token_bytes);
        document_bytes = block * static_cast<std::size_t>(times);
        std::byte* documents = arrays.take(document_bytes);
        for (std::size_t at = 0; at < document_bytes; at += block) {
            runtime.copy(arrays.place(), documents + at, params.d.data, block);
            arrays.finish();
        }
        params.d.data = documents;
        params.d.count *= times;
        params.d.total_rows *= times;
        params.pairs.width *= times;
        params.pairs.count *= times;
        params.place = arrays.place();
        outputs.scores = arrays.take(static_cast<std::size_t>(params.pairs.count) * sizeof(float));
        for (std::byte*& side : copied) side = arrays.take(copied_bytes);
    }

    /// Seconds that `calls` calls take, one behind the other.
    double run(const core::Kernel& row, const core::Params& placed, int calls) {
        const auto start = Clock::now();
        for (int i = 0; i < calls; ++i) row.score(placed, outputs);
        arrays.finish();
        return seconds_since(start);
    }

    double copy_rate() {
        constexpr int copies = 8;
        const auto start = Clock::now();
        for (int i = 0; i < copies; ++i) runtime.copy(arrays.place(), copied[1], copied[0], copied_bytes);
        arrays.finish();
        return 2e-12 * copies * static_cast<double>(copied_bytes) / seconds_since(start);
    }

    static constexpr std::size_t copied_bytes = std::size_t{256} << 20;

    Shape shape;
    const core::DeviceRuntime& runtime;
    const core::Kernel& (*choose)(const core::Params&, std::string_view);
    stream::DeviceArrays arrays;
    core::Params params;
    core::Outputs outputs;
    std::size_t document_bytes = 0;
    std::byte* copied[2] = {nullptr, nullptr};
};

DeviceBench::DeviceBench(const Shape& shape, DType dtype, const stream::DeviceBackend& backend, int ordinal)
    : state_(std::make_unique<State>(shape, dtype, backend, ordinal)) {}

DeviceBench::~DeviceBench() = default;

const core::Kernel& DeviceBench::chosen(const std::string& forced) const {
    return state_->choose(state_->params, forced);
}

bool DeviceBench::takes(const core::Kernel& row) const {
    return row.refuse(state_->params).empty();
}

DeviceTiming DeviceBench::measure(const core::Kernel& row, double seconds, const std::function<void()>& pause) {
    constexpr std::size_t least_repetitions = 5;
    constexpr double repetition_s = 2e-3;
    core::Params placed = state_->params;
    const std::size_t scratch = row.workspace == nullptr ? 0 : row.workspace(placed, state_->outputs);
    if (scratch > 0) placed.place.workspace = state_->arrays.take(scratch);
    state_->run(row, placed, 1);
    const int calls = std::clamp(static_cast<int>(repetition_s / state_->run(row, placed, 1)), 1, 1000);
    std::vector<double> times;
    std::vector<double> copies;
    const auto start = Clock::now();
    while (times.size() < least_repetitions || seconds_since(start) < seconds) {
        pause();
        copies.push_back(state_->copy_rate());
        times.push_back(1e3 * state_->run(row, placed, calls) / calls);
    }
    DeviceTiming timing;
    timing.documents = placed.d.count;
    timing.median_ms = quantile(times, 0.5);
    timing.p10_ms = quantile(times, 0.1);
    timing.p90_ms = quantile(times, 0.9);
    timing.documents_per_s = 1e3 * static_cast<double>(timing.documents) / timing.median_ms;
    timing.tb_per_s = 1e-9 * static_cast<double>(state_->document_bytes) / timing.median_ms;
    timing.tflops = 1e-9 * state_->shape.flops() * static_cast<double>(times_of(state_->shape)) / timing.median_ms;
    timing.copy_tb_per_s = quantile(copies, 0.5);
    timing.repetitions = static_cast<int>(times.size());
    return timing;
}

}  // namespace rowmax::cli::bench
