// Documents that are hidden states, on every row of the table: scores and gradients against the oracle, in every
// layout.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "cpu/guarded.hpp"
#include "cpu/sample.hpp"
#include "rowmax/projection.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// A request of some layout whose documents are hidden states: `shape.dim` is theirs, `dim` that of the tokens.
class Hidden {
  public:
    Hidden(Shape shape, std::int64_t dim, bool normalize, const Values& values)
        : sample_(with_projection(shape, dim, normalize), values), request(sample_.request) {}

  private:
    static Shape with_projection(Shape shape, std::int64_t dim, bool normalize) {
        shape.hidden = shape.dim;
        shape.dim = dim;
        shape.normalize = normalize;
        return shape;
    }
    Sample sample_;

  public:
    ScoreRequest request;
};

struct HiddenGradients {
    Array q;
    Array h;
    Array weight;
    Array bias;
};

HiddenGradients run_gradients(const core::Kernel& row, const core::Problem& problem,
                              const std::vector<std::int32_t>& index, const std::vector<double>& grad,
                              int threads = 1) {
    core::Params params = problem.params;
    params.threads = threads;
    const DType dtype = params.dtype;
    const Array scores(dtype == DType::f64 ? DType::f64 : DType::f32, {static_cast<std::int64_t>(grad.size())},
                       grad.empty() ? std::vector<double>{0} : grad);
    const std::int64_t hidden = core::projection_of(params)->hidden;
    HiddenGradients got{Array(dtype, {params.q.total_rows, params.dim}, {-99}),
                        Array(dtype, {params.d.total_rows, hidden}, {-99}), Array(dtype, {params.dim, hidden}, {-99}),
                        Array(dtype, {params.dim}, {-99})};
    core::Gradients gradients{index.data(), scores.view().data, got.q.view().data, got.h.view().data};
    gradients.weight = got.weight.view().data;
    gradients.bias = got.bias.view().data;
    row.backward(params, gradients);
    return got;
}

/// `values` as numbers of a type.
std::vector<double> rounded(DType dtype, const std::vector<double>& values) {
    return Array(dtype, {static_cast<std::int64_t>(values.size())}, values.empty() ? std::vector<double>{0} : values)
        .values();
}

std::vector<double> some_gradient(std::size_t pairs) {
    std::vector<double> grad(pairs);
    for (std::size_t p = 0; p < pairs; ++p) grad[p] = static_cast<double>(p % 5) - 2;
    return grad;
}

void expect_near(const Array& got, const std::vector<double>& want, double bound) {
    double largest = 0;
    for (const double x : want) largest = std::max(largest, std::fabs(x));
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], bound * largest) << i;
}

class HiddenLayouts : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Cpu, HiddenLayouts, ::testing::ValuesIn(all_layouts),
                         [](const auto& chosen) { return std::string(name_of_layout(chosen.param)); });

TEST_P(HiddenLayouts, SmallNumbersAreExact) {
    unsigned seed = 1;
    for (const DType dtype : token_types) {
        for (const auto [lq, ld, hidden, dim] :
             {std::array<std::int64_t, 4>{1, 1, 1, 1}, {9, 50, 40, 7}, {33, 21, 17, 33}, {20, 70, 100, 64}}) {
            const Shape shape{GetParam(), dtype, 3, 4, lq, ld, hidden, true, false, ++seed};
            SCOPED_TRACE(text_of(shape));
            const Hidden sample(shape, dim, false, small_integers(100));
            const core::Problem problem = core::make_problem(sample.request);
            const core::reference::Scores truth = core::reference::score(problem.params);
            const std::vector<double> grad = some_gradient(truth.scores.size());
            const core::reference::Gradient want = core::reference::backward(problem.params, truth.index, grad);
            for (const core::Kernel* row : rows_for(dtype)) {
                SCOPED_TRACE(row->name);
                const Results got = run(*row, problem);
                EXPECT_EQ(got.scores.values(), truth.scores);
                EXPECT_EQ(got.similarity.values(), truth.similarity);
                EXPECT_EQ(got.index.values(), (std::vector<double>(truth.index.begin(), truth.index.end())));
                const HiddenGradients gradients = run_gradients(*row, problem, truth.index, grad);
                EXPECT_EQ(gradients.q.values(), rounded(dtype, want.q));
                EXPECT_EQ(gradients.h.values(), rounded(dtype, want.d));
                EXPECT_EQ(gradients.weight.values(), rounded(dtype, want.weight));
                EXPECT_EQ(gradients.bias.values(), rounded(dtype, want.bias));
            }
        }
    }
}

// docs/numerics.md: what the projection may lose is relative to |W| |h| + |b|, which tokens may be much shorter than.
TEST_P(HiddenLayouts, ScoresAreWithinTheBound) {
    for (const DType dtype : token_types) {
        for (const bool normalize : {false, true}) {
            const Shape shape{GetParam(), dtype, 3, 4, 20, 50, 200, true, false, 5};
            const Hidden sample(shape, 96, normalize, normal());
            const core::Problem problem = core::make_problem(sample.request);
            const core::reference::Scores truth = core::reference::score(problem.params);
            const double eps = dtype == DType::f64 ? 1e-14 : dtype == DType::f32 ? 2e-7 : 1e-6;
            // Normal numbers: |u| is about sqrt(200 x 96), |W|_F |h| about sqrt(200) times that.
            const double growth = 2 * std::sqrt(200.0);
            const Results first = run(*rows_for(dtype).front(), problem);
            for (std::size_t p = 0; p < truth.scores.size(); ++p) {
                EXPECT_NEAR(first.scores[p], truth.scores[p], eps * (4 + growth) * truth.scale[p]) << name_of(dtype);
            }
            for (const core::Kernel* row : rows_for(dtype)) {
                for (const int threads : {1, 3}) {
                    const Results got = run(*row, problem, Want::all, threads);
                    EXPECT_TRUE(same_bits(got.similarity, first.similarity)) << row->name;
                    EXPECT_TRUE(same_bits(got.scores, first.scores)) << row->name;
                    EXPECT_TRUE(same_bits(got.index, first.index)) << row->name;
                }
            }
        }
    }
}

TEST_P(HiddenLayouts, GradientsThroughNorms) {
    for (const DType dtype : {DType::f64, DType::f32}) {
        for (const bool of_request : {false, true}) {
            Hidden sample({GetParam(), dtype, 3, 4, 18, 21, 30, true, false, 6}, 24, true, normal());
            sample.request.options.normalize = of_request;  // of queries as well
            const core::Problem problem = core::make_problem(sample.request);
            const core::reference::Scores truth = core::reference::score(problem.params);
            const std::vector<double> grad = some_gradient(truth.scores.size());
            const core::reference::Gradient want = core::reference::backward(problem.params, truth.index, grad);
            const double bound = dtype == DType::f64 ? 1e-12 : 1e-5;
            for (const core::Kernel* row : rows_for(dtype)) {
                SCOPED_TRACE(row->name);
                const HiddenGradients got = run_gradients(*row, problem, truth.index, grad);
                expect_near(got.q, want.q, bound);
                expect_near(got.h, want.d, bound);
                expect_near(got.weight, want.weight, bound);
                expect_near(got.bias, want.bias, bound);
            }
        }
    }
}

// Several groups of winners, runs of 256 within them, several queries a block.
TEST(Projected, GradientsHaveTheSameBitsForAnyNumberOfThreads) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
        const Hidden sample({Layout::cross, dtype, 40, 60, 33, 150, 50, true, false, 3}, 40, true, normal());
        const core::Problem problem = core::make_problem(sample.request);
        const core::Kernel& row = *rows_for(dtype).front();
        const Results scores = run(row, problem, Want::index);
        std::vector<std::int32_t> index;
        for (const double x : scores.index.values()) index.push_back(static_cast<std::int32_t>(x));
        const std::vector<double> grad = some_gradient(scores.scores.size());
        const HiddenGradients alone = run_gradients(row, problem, index, grad);
        for (const int threads : {2, 3, 4}) {
            const HiddenGradients shared = run_gradients(row, problem, index, grad, threads);
            EXPECT_TRUE(same_bits(alone.q, shared.q)) << threads;
            EXPECT_TRUE(same_bits(alone.h, shared.h)) << threads;
            EXPECT_TRUE(same_bits(alone.weight, shared.weight)) << threads;
            EXPECT_TRUE(same_bits(alone.bias, shared.bias)) << threads;
        }
        const core::reference::Gradient want = core::reference::backward(problem.params, index, grad);
        if (dtype == DType::f32) expect_near(alone.weight, want.weight, 1e-4);
    }
}

TEST(Projected, ScoresDoNotDependOnTheBatch) {
    for (const DType dtype : token_types) {
        const Hidden sample({Layout::cross, dtype, 70, 5, 33, 300, 60, false, false, 9}, 40, true, normal());
        const core::Problem problem = core::make_problem(sample.request);
        const core::Kernel& row = *rows_for(dtype).front();
        const Results all = run(row, problem);
        for (const std::int64_t document : {0, 4}) {
            ScoreRequest request = sample.request;
            request.q.tokens = TensorView(static_cast<std::byte*>(request.q.tokens.data) +
                                              std::int64_t{69} * 33 * 40 * static_cast<std::int64_t>(size_of(dtype)),
                                          dtype, {1, 33, 40});
            request.d.tokens = TensorView(static_cast<std::byte*>(request.d.tokens.data) +
                                              document * 300 * 60 * static_cast<std::int64_t>(size_of(dtype)),
                                          dtype, {1, 300, 60});
            const Results one = run(row, core::make_problem(request), Want::all, 4);
            EXPECT_EQ(one.scores[0], all.scores[static_cast<std::size_t>(69 * 5 + document)]);
        }
    }
}

// Every query token chooses the one token of its document that is not hidden.
TEST(Projected, AThousandSourcesOfOneToken) {
    for (const DType dtype : token_types) {
        const std::int64_t queries = 64;
        const Array q(dtype, {queries, 32, 1}, {1});
        const Array h(dtype, {1, 1, 1}, {1});
        const Array weight(dtype, {1, 1}, {1});
        const Array bias(dtype, {1}, {0});
        const Projection projection{weight.view(), bias.view(), false};
        ScoreRequest request;
        request.q.tokens = q.view();
        request.d.tokens = h.view();
        request.d.projection = &projection;
        const core::Problem problem = core::make_problem(request);
        const std::vector<std::int32_t> index(static_cast<std::size_t>(queries * 32), 0);
        for (const core::Kernel* row : rows_for(dtype)) {
            const HiddenGradients got =
                run_gradients(*row, problem, index, std::vector<double>(static_cast<std::size_t>(queries), 1));
            EXPECT_EQ(got.h.values(), std::vector<double>{2048}) << row->name;
            EXPECT_EQ(got.weight.values(), std::vector<double>{2048}) << row->name;
            EXPECT_EQ(got.bias.values(), std::vector<double>{2048}) << row->name;
        }
    }
}

TEST(Projected, ZerosNaNsAndEmptyDocuments) {
    for (const DType dtype : token_types) {
        const Array q(dtype, {1, 2, 2}, {1, 2, -1, 1});
        const Array h(dtype, {4, 2, 2}, {0, 0, 0, 0, 3, 4, nan, 0, 1, 1, 2, 2, 9, 9, 9, 9});
        const Array mask(DType::boolean, {4, 2}, {1, 1, 1, 1, 1, 0, 0, 0});
        const Array weight(dtype, {2, 2}, {1, 0, 0, 1});
        const Projection projection{weight.view(), {}, true};
        ScoreRequest request;
        request.q.tokens = q.view();
        request.d.tokens = h.view();
        request.d.mask = mask.view();
        request.d.projection = &projection;
        const core::Problem problem = core::make_problem(request);
        for (const core::Kernel* row : rows_for(dtype)) {
            const Results got = run(*row, problem);
            EXPECT_EQ(got.scores[0], 0) << row->name;
            EXPECT_TRUE(std::isnan(got.scores[1])) << row->name;
            EXPECT_NEAR(got.scores[2], 3 / std::sqrt(2.0), 1e-6) << row->name;
            EXPECT_EQ(got.scores[3], 0) << row->name;
            EXPECT_EQ(got.index.values(), (std::vector<double>{0, 0, 1, 1, 0, 0, -1, -1})) << row->name;
            const std::vector<std::int32_t> index{0, 0, -1, -1, -1, -1, -1, -1};
            const HiddenGradients zero = run_gradients(*row, problem, index, {1, 1, 1, 1});
            for (const Array* gradient : {&zero.q, &zero.h, &zero.weight}) {
                for (const double x : gradient->values()) EXPECT_EQ(x, 0) << row->name;
            }
        }
    }
}

TEST(Projected, AnIndexThatLiesIsIgnored) {
    const Hidden sample({Layout::cross, DType::f32, 1, 1, 3, 4, 5, false, false, 7}, 6, true, normal());
    const core::Problem problem = core::make_problem(sample.request);
    for (const core::Kernel* row : rows_for(DType::f32)) {
        const HiddenGradients a = run_gradients(*row, problem, {2, -1, -1}, {2});
        const HiddenGradients b = run_gradients(*row, problem, {2, 4, -2147483647}, {2});
        EXPECT_TRUE(same_bits(a.q, b.q));
        EXPECT_TRUE(same_bits(a.h, b.h));
        EXPECT_TRUE(same_bits(a.weight, b.weight));
    }
}

TEST(Projected, WideTokensAndStates) {
    for (const DType dtype : {DType::f32, DType::f16}) {
        for (const auto& [hidden, dim] : {std::pair<std::int64_t, std::int64_t>{1, 4096}, {5000, 3}, {4096, 257}}) {
            const Hidden sample({Layout::cross, dtype, 2, 2, 3, 30, hidden, false, false, 4}, dim, false,
                                small_integers(4096));
            const core::Problem problem = core::make_problem(sample.request);
            const core::reference::Scores truth = core::reference::score(problem.params);
            const Results got = run(*rows_for(dtype).front(), problem);
            EXPECT_EQ(got.scores.values(), truth.scores) << hidden << " " << dim;
        }
    }
}

TEST(Projected, NothingIsReadBehindTheEnd) {
    for (const DType dtype : token_types) {
        const Hidden tidy({Layout::cross, dtype, 2, 3, 9, 21, 23, false, false, 3}, 17, true, normal());
        ScoreRequest request = tidy.request;
        Projection projection = *request.d.projection;
        const Guarded memory[] = {Guarded(bytes_of(request.q.tokens)), Guarded(bytes_of(request.d.tokens)),
                                  Guarded(bytes_of(projection.weight)), Guarded(bytes_of(projection.bias))};
        request.q.tokens = copy_to(memory[0].data(), request.q.tokens);
        request.d.tokens = copy_to(memory[1].data(), request.d.tokens);
        projection.weight = copy_to(memory[2].data(), projection.weight);
        projection.bias = copy_to(memory[3].data(), projection.bias);
        request.d.projection = &projection;
        const core::Problem problem = core::make_problem(request);
        const core::Problem other = core::make_problem(tidy.request);
        for (const core::Kernel* row : rows_for(dtype)) {
            EXPECT_TRUE(same_bits(run(*row, problem).similarity, run(*row, other).similarity));
            const std::vector<std::int32_t> index(2 * 3 * 9, 20);
            const std::vector<double> grad(6, 1);
            EXPECT_TRUE(same_bits(run_gradients(*row, problem, index, grad).weight,
                                  run_gradients(*row, other, index, grad).weight));
        }
    }
}

TEST(Projected, TopKOfChunks) {
    const Hidden sample({Layout::cross, DType::f32, 2, 30, 9, 11, 40, true, false, 7}, 24, true, normal());
    const Array scores(DType::f32, {2, 5});
    const Array index(DType::i64, {2, 5});
    const Array chunked(DType::f32, {2, 5});
    const Array chunked_index(DType::i64, {2, 5});
    const ScoreRequest& request = sample.request;
    topk(request.q, request.d, 5, 0, request.options, scores.view(), index.view());
    topk(request.q, request.d, 5, 7, request.options, chunked.view(), chunked_index.view());
    EXPECT_EQ(scores.values(), chunked.values());
    EXPECT_EQ(index.values(), chunked_index.values());
}

TEST(Projected, WhatDoesNotFitIsNamed) {
    const Hidden sample({Layout::cross, DType::f32, 2, 3, 4, 5, 16, false, false, 3}, 8, true, normal());
    ScoreRequest request = sample.request;
    Projection projection = *request.d.projection;
    request.d.projection = &projection;
    EXPECT_NO_THROW(result_shape(request));
    const Array halves(DType::f16, {8, 16});
    projection.weight = halves.view();
    EXPECT_ERROR(result_shape(request), invalid_type, "Q is float32", "W is float16");
    const Array narrow(DType::f32, {8, 15});
    projection.weight = narrow.view();
    EXPECT_ERROR(result_shape(request), invalid_value, "H [3, 5, 16]", "W [8, 15]", "16 and 15");
    const Array tall(DType::f32, {9, 16});
    const Array long_bias(DType::f32, {9});
    projection.weight = tall.view();
    EXPECT_ERROR(result_shape(request), invalid_value, "b [8]", "[9]");
    projection.bias = long_bias.view();
    EXPECT_ERROR(result_shape(request), invalid_value, "Q [2, 4, 8]", "W [9, 16]", "8 and 9");
    const Array flat(DType::f32, {16});
    projection.weight = flat.view();
    EXPECT_ERROR(result_shape(request), invalid_value, "W [16]", "[d, hidden]");
    projection = *sample.request.d.projection;
    const Array other(DType::f64, {3, 5, 16});
    request.d.tokens = other.view();
    EXPECT_ERROR(result_shape(request), invalid_type, "Q is float32", "H is float64");
    const Array grad(DType::f32, {2, 3});
    const Array index(DType::i32, {2, 3, 4});
    EXPECT_ERROR(score_backward(sample.request, index.view(), grad.view(), {}, {}, grad.view()), invalid_value,
                 "grad_weight", "[8, 16]");
    request = sample.request;
    EXPECT_ERROR(score(request, {TensorView(request.d.projection->weight.data, DType::f32, {2, 3}), {}, {}}),
                 invalid_value, "out", "W");
    request.d.projection = nullptr;
    EXPECT_ERROR(result_shape(request), invalid_value, "Q", "D", "8 and 16");
}

}  // namespace
}  // namespace rowmax::test
