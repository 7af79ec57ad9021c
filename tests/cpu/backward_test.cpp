// Gradients against the oracle, from the index that the forward saved.
#include <gtest/gtest.h>

#include <cmath>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

struct GradientArrays {
    Array q;
    Array d;
};

std::vector<double> upstream(std::int64_t pairs, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<double> all;
    for (std::int64_t p = 0; p < pairs; ++p) all.push_back(std::uniform_int_distribution(-4, 4)(random));
    return all;
}

GradientArrays run_backward(const core::Kernel& row, const core::Problem& problem, const Array& index,
                            const std::vector<double>& grad_scores, int threads = 1) {
    core::Params params = problem.params;
    params.threads = threads;
    const Array scores(params.dtype == DType::f64 ? DType::f64 : DType::f32, {params.pairs.count},
                       grad_scores.empty() ? std::vector<double>{0} : grad_scores);
    GradientArrays out{Array(params.dtype, {params.q.total_rows, params.dim}, {-12345}),
                       Array(params.dtype, {params.d.total_rows, params.dim}, {-12345})};
    core::Gradients gradients;
    gradients.index = static_cast<const std::int32_t*>(index.view().data);
    gradients.scores = scores.view().data;
    gradients.q = out.q.view().data;
    gradients.d = out.d.view().data;
    row.backward(params, gradients);
    return out;
}

core::reference::Gradient truth(const core::Problem& problem, const Array& index, const std::vector<double>& grad) {
    std::vector<std::int32_t> tokens;
    for (const double t : index.values()) tokens.push_back(static_cast<std::int32_t>(t));
    return core::reference::backward(problem.params, tokens, grad);
}

// What the oracle's gradient becomes when it is written in the tokens' type.
std::vector<double> rounded(DType dtype, const std::vector<double>& values) {
    return values.empty() ? values : Array(dtype, {static_cast<std::int64_t>(values.size())}, values).values();
}

class BackwardOf : public ::testing::TestWithParam<std::tuple<Layout, DType>> {};

TEST_P(BackwardOf, WholeNumbersAreExact) {
    const auto [layout, dtype] = GetParam();
    unsigned seed = 1;
    for (const std::int64_t lq : {0, 1, 7, 33}) {
        for (const std::int64_t ld : {0, 1, 7, 33}) {
            for (const bool masked : {false, true}) {
                const Shape shape{layout, dtype, 3, 4, lq, ld, 17, masked, false, ++seed};
                SCOPED_TRACE(::testing::PrintToString(shape));
                const Sample sample(shape, small_integers(shape.dim));
                const core::Problem problem = core::make_problem(sample.request);
                const std::vector<double> grad = upstream(problem.params.pairs.count, seed);
                for (const core::Kernel* row : rows_for(dtype)) {
                    SCOPED_TRACE(row->name);
                    const Results results = run(*row, problem);
                    const core::reference::Gradient want = truth(problem, results.index, grad);
                    const GradientArrays got = run_backward(*row, problem, results.index, grad);
                    EXPECT_EQ(got.q.values(), rounded(dtype, want.q));
                    EXPECT_EQ(got.d.values(), rounded(dtype, want.d));
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, BackwardOf,
                         ::testing::Combine(::testing::ValuesIn(all_layouts), ::testing::ValuesIn(token_types)),
                         [](const auto& chosen) {
                             return std::string(name_of_layout(std::get<0>(chosen.param))) + "_" +
                                    std::string(name_of(std::get<1>(chosen.param)));
                         });

void expect_near(const Array& got, const std::vector<double>& want, double relative) {
    double largest = 0;
    for (const double x : want) largest = std::fmax(largest, std::fabs(x));
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], relative * largest) << "element " << i;
}

TEST(Backward, NormalizedTokens) {
    for (const Layout layout : all_layouts) {
        for (const DType dtype : token_types) {
            const Shape shape{layout, dtype, 3, 4, 9, 21, 33, true, true, 5};
            SCOPED_TRACE(::testing::PrintToString(shape));
            const Sample sample(shape, normal());
            const core::Problem problem = core::make_problem(sample.request);
            const std::vector<double> grad = upstream(problem.params.pairs.count, 3);
            const double bound = dtype == DType::f64   ? 1e-14
                                 : dtype == DType::f32 ? 1e-6
                                 : dtype == DType::f16 ? 1e-3
                                                       : 8e-3;
            for (const core::Kernel* row : rows_for(dtype)) {
                SCOPED_TRACE(row->name);
                const Results results = run(*row, problem);
                const core::reference::Gradient want = truth(problem, results.index, grad);
                const GradientArrays got = run_backward(*row, problem, results.index, grad);
                expect_near(got.q, want.q, bound);
                expect_near(got.d, want.d, bound);
            }
        }
    }
}

// One document token that thousands of query tokens choose, and enough work for every thread.
TEST(Backward, SameBitsOnAnyNumberOfThreads) {
    const Sample sample({Layout::cross, DType::f32, 40, 3, 100, 2, 64, false, false, 7}, normal());
    const core::Problem problem = core::make_problem(sample.request);
    const std::vector<double> grad = upstream(problem.params.pairs.count, 3);
    for (const core::Kernel* row : rows_for(DType::f32)) {
        SCOPED_TRACE(row->name);
        const Results results = run(*row, problem);
        const GradientArrays alone = run_backward(*row, problem, results.index, grad);
        const core::reference::Gradient want = truth(problem, results.index, grad);
        expect_near(alone.d, want.d, 1e-6);
        for (const int threads : {2, 3, 4}) {
            const GradientArrays shared = run_backward(*row, problem, results.index, grad, threads);
            EXPECT_TRUE(same_bits(alone.q, shared.q)) << threads;
            EXPECT_TRUE(same_bits(alone.d, shared.d)) << threads;
        }
    }
}

TEST(Backward, AnIndexThatLiesIsIgnored) {
    const Sample sample({Layout::cross, DType::f32, 1, 1, 3, 4, 5, false, false, 7}, small_integers(5));
    const core::Problem problem = core::make_problem(sample.request);
    const Array honest(DType::i32, {1, 3}, {2, -1, -1});
    const Array lying(DType::i32, {1, 3}, {2, 4, -2147483647});
    for (const core::Kernel* row : rows_for(DType::f32)) {
        const GradientArrays a = run_backward(*row, problem, honest, {2});
        const GradientArrays b = run_backward(*row, problem, lying, {2});
        EXPECT_TRUE(same_bits(a.q, b.q));
        EXPECT_TRUE(same_bits(a.d, b.d));
    }
}

}  // namespace
}  // namespace rowmax::test
