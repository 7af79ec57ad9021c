// What the benchmark's Python side calls: rowmax::score on packed documents, and the probes that measure the ceilings.
// A C interface of its own, so that the benchmark times the library and not a binding.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "core/registry.hpp"
#include "prim/fma_peak.hpp"
#include "prim/read_bandwidth.hpp"
#include "rowmax/maxsim.hpp"

namespace {

/// One query against packed documents, as ctypes lays it out (bench/implementations.py).
struct Problem {
    const void* query;
    const void* tokens;
    const std::int64_t* cu_seqlens;
    std::int64_t documents;
    std::int64_t query_length;
    std::int64_t dim;
    const char* dtype;
    const char* kernel;
    int threads;
};

rowmax::ScoreRequest request_of(const Problem& p) {
    const rowmax::DType dtype = rowmax::dtype_from_name(p.dtype);
    rowmax::ScoreRequest request;
    request.q.tokens = rowmax::TensorView(p.query, dtype, {1, p.query_length, p.dim});
    request.d.tokens = rowmax::TensorView(p.tokens, dtype, {p.cu_seqlens[p.documents], p.dim});
    request.d.cu_seqlens = rowmax::TensorView(p.cu_seqlens, rowmax::DType::i64, {p.documents + 1});
    request.options.threads = p.threads;
    request.options.kernel = p.kernel;
    return request;
}

std::string last_error;

}  // namespace

extern "C" {

/// 0, or 1 with the reason in bench_error().
int bench_score(const Problem* problem, void* scores) {
    try {
        const rowmax::ScoreRequest request = request_of(*problem);
        const rowmax::ResultShape shape = rowmax::result_shape(request);
        rowmax::score(request,
                      {.scores = rowmax::TensorView(scores, shape.dtype, shape.scores), .index = {}, .similarity = {}});
        return 0;
    } catch (const rowmax::Error& error) {
        last_error = error.what();
        return 1;
    }
}

/// The name of the row that dispatch chooses; empty when there is none.
const char* bench_kernel(const Problem* problem) {
    static std::string name;
    name.clear();
    for (const rowmax::KernelInfo& row : rowmax::explain_dispatch(request_of(*problem)))
        if (row.chosen) name = row.name;
    return name.c_str();
}

const char* bench_error() {
    return last_error.c_str();
}

/// The chosen row alone, on prepared parameters: microseconds a call.
double bench_kernel_microseconds(const Problem* problem, int calls) {
    using Clock = std::chrono::steady_clock;
    const rowmax::core::Problem prepared = rowmax::core::make_problem(request_of(*problem));
    const rowmax::core::Kernel& row = rowmax::core::choose(prepared.params, problem->kernel);
    std::vector<double> scores(static_cast<std::size_t>(problem->documents));
    rowmax::core::Outputs outputs;
    outputs.scores = scores.data();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) row.score(prepared.params, outputs);
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls;
}

/// float32 GFLOP/s; 0 where this machine lacks the vector length (256 or 512 bits).
double bench_fma_peak(int bits, int threads, double milliseconds) {
    const auto simd = bits == 512 ? rowmax::bench::Simd::avx512 : rowmax::bench::Simd::avx2;
    return rowmax::bench::fma_peak(simd, threads, milliseconds);
}

void bench_read_once(const std::byte* data, std::size_t bytes, int threads) {
    rowmax::bench::read_once(data, bytes, threads);
}

}  // extern "C"
