// Sign bits on every row of a table: counted on both sides, or read as +1 and -1 beside queries of numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "cpu/sign_sample.hpp"

namespace rowmax::test {
namespace {

class SignLayouts : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Every, SignLayouts, ::testing::ValuesIn(all_layouts),
                         [](const auto& chosen) { return std::string(name_of_layout(chosen.param)); });

void expect_truth(const core::Kernel& row, const core::Problem& problem, double bound) {
    SCOPED_TRACE(row.name);
    const core::reference::Scores truth = core::reference::score(problem.params);
    const Results got = run(row, problem);
    EXPECT_TRUE(same_bits(run(row, problem, Want::scores).scores, got.scores));
    if (bound == 0) {
        EXPECT_EQ(got.index.values(), (std::vector<double>(truth.index.begin(), truth.index.end())));
        EXPECT_EQ(got.similarity.values(), truth.similarity);
    }
    for (std::size_t p = 0; p < truth.scores.size(); ++p) {
        EXPECT_LE(std::fabs(got.scores[p] - truth.scores[p]), bound * truth.scale[p]);
    }
}

TEST_P(SignLayouts, BitsOnBothSides) {
    unsigned seed = 1;
    ASSERT_FALSE(rows_named(".bits").empty());
    for (const std::int64_t dim : {1, 7, 8, 9, 31, 32, 33, 64, 100, 128, 1024, 4096}) {
        for (const std::int64_t lq : {1, 9, 33}) {
            if (dim > 128 && lq != 9) continue;
            const Shape shape{GetParam(), DType::f32, 3, 4, lq, dim > 128 ? 9 : 50, dim, true, false, ++seed};
            SCOPED_TRACE(::testing::PrintToString(shape));
            const Signs signs(shape, true);
            const core::Problem problem = core::make_problem(signs.request);
            for (const core::Kernel* row : rows_named(".bits")) expect_truth(*row, problem, 0);
        }
    }
}

TEST_P(SignLayouts, NumbersBesideBits) {
    unsigned seed = 1;
    for (const std::int64_t dim : {1, 7, 8, 9, 33, 100, 128, 768}) {
        for (const bool big : {false, true}) {
            const Shape shape{GetParam(), DType::f32, 3, 4, 19, 50, dim, true, false, ++seed};
            SCOPED_TRACE(::testing::PrintToString(shape));
            const Signs signs(shape, false, big);
            const core::Problem problem = core::make_problem(signs.request);
            for (const core::Kernel* row : rows_named(".residual")) expect_truth(*row, problem, 2e-7);
        }
    }
}

}  // namespace
}  // namespace rowmax::test
