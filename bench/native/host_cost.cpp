// What a call costs besides the kernel: rowmax::score() of one query of 32 tokens and one document of 180, less the
// time of the chosen row called directly on prepared Params. Prints one JSON line per type.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "core/registry.hpp"
#include "native/tokens.hpp"

namespace {

using rowmax::DType;
using rowmax::bench::Tokens;
using Clock = std::chrono::steady_clock;

constexpr Tokens::Shape shape{32, 1, 180, 128};
constexpr int calls_per_batch = 50;
constexpr int batches = 400;

template <class Call>
double microseconds(Call call) {
    const auto start = Clock::now();
    for (int i = 0; i < calls_per_batch; ++i) call();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls_per_batch;
}

double quantile(std::vector<double> values, double q) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

nlohmann::json measure(DType dtype) {
    Tokens tokens(shape, dtype, 0);
    const rowmax::core::Problem problem = rowmax::core::make_problem(tokens.request());
    const rowmax::core::Outputs outputs = rowmax::core::check_outputs(problem, tokens.outputs());
    const rowmax::core::Kernel& row = rowmax::core::choose(problem.params, {});
    std::vector<double> whole, kernel, cost;
    for (int i = 0; i < batches; ++i) {  // in turns, so that drift of the clock hits both alike
        kernel.push_back(microseconds([&] { row.score(problem.params, outputs); }));
        whole.push_back(microseconds([&] { rowmax::score(tokens.request(), tokens.outputs()); }));
        cost.push_back(whole.back() - kernel.back());
    }
    const auto ms = [](const std::vector<double>& v, double q) { return quantile(v, q) * 1e-3; };
    return {{"case", "host-cost"},
            {"impl", "rowmax C++"},
            {"kernel", std::string(row.name)},
            {"dtype", rowmax::name_of(dtype)},
            {"threads", 1},
            {"median_ms", ms(cost, 0.5)},
            {"p10_ms", ms(cost, 0.1)},
            {"p90_ms", ms(cost, 0.9)},
            {"call_ms", ms(whole, 0.5)},
            {"kernel_ms", ms(kernel, 0.5)}};
}

}  // namespace

int main() {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
        std::cout << measure(dtype).dump() << '\n';
}
