// Small whole numbers make every product and sum exact: every row of the table must give the oracle's scores,
// similarities and winning tokens, bit for bit.
#include <gtest/gtest.h>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

void expect_exact(const Shape& shape) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    const Sample sample(shape, small_integers(shape.dim));
    const core::Problem problem = core::make_problem(sample.request);
    const core::reference::Scores truth = core::reference::score(problem.params);
    const std::vector<double> index(truth.index.begin(), truth.index.end());
    for (const core::Kernel* row : rows_for(shape.dtype)) {
        SCOPED_TRACE(row->name);
        const Results results = run(*row, problem);
        EXPECT_EQ(results.scores.values(), truth.scores);
        EXPECT_EQ(results.index.values(), index);
        EXPECT_EQ(results.similarity.values(), truth.similarity);
    }
}

class EveryLayout : public ::testing::TestWithParam<std::tuple<Layout, DType>> {};

TEST_P(EveryLayout, OddLengths) {
    const auto [layout, dtype] = GetParam();
    unsigned seed = 1;
    for (const std::int64_t lq : {0, 1, 7, 31, 33}) {
        for (const std::int64_t ld : {0, 1, 7, 33, 180}) {
            for (const bool masked : {false, true}) {
                expect_exact({layout, dtype, 3, 4, lq, ld, 17, masked, false, ++seed});
            }
        }
    }
}

TEST_P(EveryLayout, Dimensions) {
    const auto [layout, dtype] = GetParam();
    unsigned seed = 1;
    for (const std::int64_t dim : {1, 2, 15, 16, 17, 48, 96, 127, 128, 129, 768, 4096}) {
        expect_exact({layout, dtype, 2, 2, 5, 14, dim, true, false, ++seed});
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, EveryLayout,
                         ::testing::Combine(::testing::ValuesIn(all_layouts), ::testing::ValuesIn(token_types)),
                         [](const auto& chosen) {
                             return std::string(name_of_layout(std::get<0>(chosen.param))) + "_" +
                                    std::string(name_of(std::get<1>(chosen.param)));
                         });

}  // namespace
}  // namespace rowmax::test
