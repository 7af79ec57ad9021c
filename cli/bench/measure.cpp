#include "cli/bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/parallel.hpp"
#include "cpu/sample.hpp"
#include "prim/fma_peak.hpp"

namespace rowmax::cli::bench {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration time) {
    return std::chrono::duration<double, std::milli>(time).count();
}

double peak(int threads) {
    constexpr double probe_ms = 2;
    const auto simd =
        rowmax::bench::has(rowmax::bench::Simd::avx512) ? rowmax::bench::Simd::avx512 : rowmax::bench::Simd::avx2;
    return rowmax::bench::fma_peak(simd, threads, probe_ms);
}

}  // namespace

double quantile(std::vector<double> values, double q) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
}

double Shape::flops() const {
    return 2.0 * static_cast<double>(queries) * static_cast<double>(documents) * static_cast<double>(query_length) *
           static_cast<double>(document_length) * static_cast<double>(dim);
}

const std::vector<Shape>& shapes() {
    static const std::vector<Shape> list = {
        {"text", 1, 1000, 32, 300, 128},
        {"short", 1, 4000, 32, 64, 96},
        {"colpali", 1, 32, 1024, 1024, 128},
        {"one pair", 1, 1, 32, 180, 128},
    };
    return list;
}

Timing measure(const Shape& shape, DType dtype, const Options& options, double seconds,
               const std::function<void()>& pause) {
    constexpr std::size_t least_repetitions = 5;
    const test::Sample sample({.dtype = dtype,
                               .queries = shape.queries,
                               .documents = shape.documents,
                               .lq = shape.query_length,
                               .ld = shape.document_length,
                               .dim = shape.dim,
                               .residual = dtype == DType::u8 && options.kernel.ends_with(".residual")},
                              test::small_integers(shape.dim));
    ScoreRequest request = sample.request;
    request.options = options;
    std::vector<std::byte> memory(static_cast<std::size_t>(shape.queries * shape.documents) * size_of(DType::f64));
    const ResultShape result = result_shape(request);
    ScoreOutputs outputs;
    outputs.scores = TensorView(memory.data(), result.dtype, result.scores);
    score(request, outputs);  // first touch of pages and threads
    const int threads = core::thread_count(options.threads);
    std::vector<double> times;
    std::vector<double> peaks;
    const auto start = Clock::now();
    while (times.size() < least_repetitions || milliseconds(Clock::now() - start) < seconds * 1e3) {
        pause();
        peaks.push_back(peak(threads));
        const auto before = Clock::now();
        score(request, outputs);
        times.push_back(milliseconds(Clock::now() - before));
    }
    Timing timing{quantile(times, 0.5), quantile(times, 0.1),          quantile(times, 0.9), 0,
                  quantile(peaks, 0.5), static_cast<int>(times.size())};
    timing.gflops = shape.flops() / timing.median_ms * 1e-6;
    return timing;
}

}  // namespace rowmax::cli::bench
