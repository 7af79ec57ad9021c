// The oracle itself, against numbers worked out by hand and against finite differences.
#include "core/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "core/problem.hpp"
#include "support/array.hpp"

namespace rowmax::core {
namespace {

using test::Array;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
using Index = std::vector<std::int32_t>;
using Values = std::vector<double>;

reference::Scores score_of(const Array& q, const Array& d, bool normalize = false) {
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    request.options.normalize = normalize;
    const Problem problem = make_problem(request);
    return reference::score(problem.params);
}

TEST(ReferenceTest, SumOfMaxima) {
    const Array q(DType::f32, {2, 2}, {1, 0, 0, 1});
    const Array d(DType::f32, {2, 3, 2}, {1, 2, 3, 0, 0, 0, -1, -1, -2, 4, -3, 1});
    const reference::Scores s = score_of(q, d);
    EXPECT_EQ(s.scores, (Values{5, 3}));
    EXPECT_EQ(s.index, (Index{1, 0, 0, 1}));
    EXPECT_EQ(s.similarity, (Values{3, 2, -1, 4}));
    EXPECT_DOUBLE_EQ(s.scale[0], 3 + std::sqrt(5.0));  // |q| |d_win|, summed
}

TEST(ReferenceTest, MasksOnBothSides) {
    const Array q(DType::f32, {3, 2}, {1, 0, 0, 1, 1, 1});
    const Array d(DType::f32, {2, 3, 2}, {1, 2, 3, 0, 0, 0, -1, -1, -2, 4, -3, 1});
    const Array q_mask(DType::boolean, {3}, {1, 0, 1});
    const Array d_mask(DType::boolean, {2, 3}, {1, 0, 1, 0, 0, 0});
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    request.q.mask = q_mask.view();
    request.d.mask = d_mask.view();
    const Problem problem = make_problem(request);
    const reference::Scores s = reference::score(problem.params);
    EXPECT_EQ(s.scores, (Values{1 + 3, 0}));
    EXPECT_EQ(s.index, (Index{0, -1, 0, -1, -1, -1}));
}

TEST(ReferenceTest, TiesGoToTheLowestToken) {
    const Array q(DType::f32, {1, 2}, {1, 1});
    const Array d(DType::f32, {4, 2}, {-1, 1, 0, -0.0, 1, -1, 0.5, -0.5});
    EXPECT_EQ(score_of(q, d).index, (Index{0}));
}

TEST(ReferenceTest, NaNWinsAndMinusInfinityIsASimilarity) {
    const Array q(DType::f32, {1, 1}, {1});
    EXPECT_EQ(score_of(q, Array(DType::f32, {4, 1}, {1, nan, infinity, nan})).index, (Index{1}));
    const reference::Scores lowest = score_of(q, Array(DType::f32, {2, 1}, {-infinity, -infinity}));
    EXPECT_EQ(lowest.index, (Index{0}));
    EXPECT_EQ(lowest.scores, (Values{-infinity}));
    EXPECT_EQ(score_of(q, Array(DType::f32, {2, 1}, {-infinity, 3})).index, (Index{1}));
}

TEST(ReferenceTest, NoTokensScoreNothing) {
    const reference::Scores s = score_of(Array(DType::f32, {2, 1}), Array(DType::f32, {3, 0, 1}));
    EXPECT_EQ(s.scores, (Values{0, 0, 0}));
    EXPECT_EQ(s.index, (Index(6, -1)));
    EXPECT_EQ(score_of(Array(DType::f32, {0, 1}), Array(DType::f32, {3, 2, 1})).scores, (Values{0, 0, 0}));
}

TEST(ReferenceTest, CosinesOfZeroHugeAndTinyTokens) {
    const Array q(DType::f64, {1, 2}, {3e200, 4e200});
    const Array d(DType::f64, {3, 2}, {0, 0, -1, -1, 6e-200, 8e-200});
    const reference::Scores s = score_of(q, d, true);
    EXPECT_EQ(s.index, (Index{2}));
    EXPECT_DOUBLE_EQ(s.scores[0], 1);
    EXPECT_EQ(s.scale, (Values{1}));
    EXPECT_EQ(score_of(Array(DType::f64, {1, 2}), d, true).scores, (Values{0}));
}

TEST(ReferenceTest, EveryTokenTypeIsWidened) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
        const Array x(dtype, {1, 2}, {1.5, -2});
        EXPECT_EQ(score_of(x, x).scores, (Values{6.25})) << name_of(dtype);
    }
}

TEST(ReferenceTest, PackedQueriesPadTheirIndex) {
    const Array q(DType::f32, {3, 1}, {1, 2, 3});
    const Array d(DType::f32, {2, 1}, {5, 7});
    const Array cu(DType::i32, {3}, {0, 1, 3});
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    request.q.cu_seqlens = cu.view();
    const Problem problem = make_problem(request);
    const reference::Scores s = reference::score(problem.params);
    EXPECT_EQ(s.scores, (Values{7, 35}));
    EXPECT_EQ(s.index, (Index{1, -1, 1, 1}));
}

// backward() against the slope of score(), with random tokens whose winners a small step does not change.
class ReferenceBackwardTest : public ::testing::TestWithParam<bool> {
  protected:
    static Array random_tokens(std::vector<std::int64_t> shape, unsigned seed) {
        std::mt19937 random(seed);
        std::normal_distribution<double> normal;
        Values values(64);
        for (double& x : values) x = normal(random);
        return {DType::f64, std::move(shape), values};
    }

    // The slope of sum(grad * score) when element i of `moved` changes.
    static double slope(const Array& moved, std::size_t i, const std::function<double()>& loss) {
        auto* element = static_cast<double*>(moved.view().data) + i;
        const double step = 1e-6;
        const double before = *element;
        *element = before + step;
        const double high = loss();
        *element = before - step;
        const double low = loss();
        *element = before;
        return (high - low) / (2 * step);
    }
};

TEST_P(ReferenceBackwardTest, AgreesWithFiniteDifferences) {
    const Array q = random_tokens({2, 3, 4}, 1);
    const Array d = random_tokens({3, 5, 4}, 2);
    const Array mask(DType::boolean, {3, 5}, {1, 1, 0});
    const Values grad{1, -2, 0.5, 3, 0, -1};
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    request.d.mask = mask.view();
    request.options.normalize = GetParam();
    const Problem problem = make_problem(request);
    const auto loss = [&] {
        const Values scores = reference::score(problem.params).scores;
        return std::inner_product(scores.begin(), scores.end(), grad.begin(), 0.0);
    };
    const reference::Gradient gradient =
        reference::backward(problem.params, reference::score(problem.params).index, grad);
    for (std::size_t i = 0; i < q.size(); ++i) EXPECT_NEAR(gradient.q[i], slope(q, i, loss), 1e-7) << "q " << i;
    for (std::size_t i = 0; i < d.size(); ++i) EXPECT_NEAR(gradient.d[i], slope(d, i, loss), 1e-7) << "d " << i;
}

INSTANTIATE_TEST_SUITE_P(Forms, ReferenceBackwardTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Normalised" : "Plain"; });

TEST(ReferenceTest, NoGradientThroughNothing) {
    const Array q(DType::f64, {1, 2}, {0, 0});
    const Array d(DType::f64, {2, 1, 2}, {1, 2, 3, 4});
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    request.options.normalize = true;
    const Problem problem = make_problem(request);
    const reference::Gradient gradient = reference::backward(problem.params, {0, -1}, {1, 1});
    EXPECT_EQ(gradient.q, (Values{0, 0})) << "a zero token has no direction";
    EXPECT_EQ(gradient.d, (Values(4, 0))) << "nor does it pull documents";
}

}  // namespace
}  // namespace rowmax::core
