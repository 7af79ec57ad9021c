// For whoever works on a kernel: every row of the CPU table that this machine can run, on shapes inside and outside the
// caches, one thread, with the FMA peak measured beside it. Run with --benchmark_filter=avx2.f32 and the like.
#include <benchmark/benchmark.h>

#include <string>

#include "core/problem.hpp"
#include "core/registry.hpp"
#include "native/tokens.hpp"
#include "prim/fma_peak.hpp"

namespace {

using rowmax::DType;
using rowmax::bench::Tokens;
using rowmax::core::Kernel;

struct NamedShape {
    const char* name;
    Tokens::Shape shape;
};

constexpr NamedShape shapes[] = {
    {"text_in_L2", {32, 2, 300, 128}},
    {"text_in_L3", {32, 60, 300, 128}},
    {"text_in_memory", {32, 1000, 300, 128}},
    {"colpali", {1024, 4, 1024, 128}},
    {"short", {32, 400, 64, 96}},
    {"d768", {32, 20, 300, 768}},
    {"one_query_token", {1, 1000, 300, 128}},
    {"one_in_L2", {1, 2, 300, 128}},
    {"2_query_tokens", {2, 60, 300, 128}},
    {"4_query_tokens", {4, 60, 300, 128}},
    {"6_query_tokens", {6, 60, 300, 128}},
    {"8_query_tokens", {8, 60, 300, 128}},
    {"16_query_tokens", {16, 60, 300, 128}},
    {"20_query_tokens", {20, 60, 300, 128}},
    {"24_query_tokens", {24, 60, 300, 128}},
};

void score(benchmark::State& state, const Kernel& row, Tokens::Shape shape, DType dtype) {
    Tokens tokens(shape, dtype, 1);
    const rowmax::core::Problem problem = rowmax::core::make_problem(tokens.request());
    const std::string refusal = row.refuse(problem.params);
    if (!refusal.empty()) return state.SkipWithError(refusal.c_str());
    const rowmax::core::Outputs outputs = rowmax::core::check_outputs(problem, tokens.outputs());
    for (auto _ : state) row.score(problem.params, outputs);
    using benchmark::Counter;
    state.counters["FLOP/s"] = Counter(tokens.flop(), Counter::kIsIterationInvariantRate);
    state.counters["peak_FLOP/s"] = rowmax::bench::fma_peak(rowmax::bench::Simd::avx2, 1, 5) * 1e9;
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(tokens.document_bytes()));
}

void register_row(const Kernel& row) {
    for (const auto& [name, shape] : shapes) {
        for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
            Tokens probe({1, 1, 1, shape.dim}, dtype, 1);
            if (!row.refuse(rowmax::core::make_problem(probe.request()).params).empty()) continue;
            const std::string title = std::string(row.name) + "/" + name + "/" + std::string(rowmax::name_of(dtype));
            benchmark::RegisterBenchmark(title.c_str(), score, row, shape, dtype)->Unit(benchmark::kMicrosecond);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    for (const Kernel& row : rowmax::core::cpu_kernels())
        if (row.missing_features().empty()) register_row(row);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
}
