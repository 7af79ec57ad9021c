// Lengths that the caller announces and nobody reads on the host: a score is right, or NaN.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/expect.hpp"

namespace rowmax::test {
namespace {

constexpr DType types[] = {DType::f16, DType::bf16, DType::f32};

class Lies : public ::testing::TestWithParam<std::tuple<Layout, DType>> {};

void expect_right_or_nan(const core::Problem& problem, const Results& truth, const Results& lied, std::int64_t most) {
    const core::Params& params = problem.params;
    const auto width = static_cast<std::size_t>(most);
    for (std::size_t p = 0; p < truth.scores.size(); ++p) {
        const std::int64_t length = params.q.at(params.pairs.query(static_cast<std::int64_t>(p))).length;
        if (length > most) {
            EXPECT_TRUE(std::isnan(lied.scores[p])) << "pair " << p << ": " << lied.scores[p];
        } else {
            EXPECT_EQ(lied.scores[p], truth.scores[p]) << "pair " << p;
        }
        const auto whole = static_cast<std::size_t>(params.q.max_length);
        for (std::size_t s = 0; s < width; ++s) EXPECT_EQ(lied.index[p * width + s], truth.index[p * whole + s]);
    }
}

TEST_P(Lies, AQueryLongerThanTheLongestHasNoScore) {
    const auto [layout, dtype] = GetParam();
    for (const std::int64_t lq : {9, 40, 150, 700}) {
        for (const std::int64_t ld : {90, 3000}) {
            for (const std::int64_t dim : {64, 256}) {
                const Shape shape{layout, dtype, 4, 3, lq, ld, dim, false, dim == 64, static_cast<unsigned>(lq)};
                SCOPED_TRACE(::testing::PrintToString(shape));
                const Sample sample(shape, small_integers(dim));
                const core::Problem problem = core::make_problem(sample.request);
                for (const core::Kernel* row : rows_for(dtype)) {
                    SCOPED_TRACE(row->name);
                    const Results truth = run(*row, problem);
                    for (const std::int64_t most : {lq - 1, lq / 2, std::int64_t{1}, std::int64_t{0}}) {
                        core::Problem lie = core::make_problem(sample.request);
                        lie.params.q.max_length = most;
                        expect_right_or_nan(problem, truth, run(*row, lie), most);
                    }
                }
            }
        }
    }
}

TEST_P(Lies, TheLongestDocumentIsOnlyAHint) {
    const auto [layout, dtype] = GetParam();
    for (const std::int64_t ld : {90, 3000}) {
        const Sample sample({layout, dtype, 3, 5, 33, ld, 64, false, false, 3}, small_integers(64));
        const core::Problem problem = core::make_problem(sample.request);
        for (const core::Kernel* row : rows_for(dtype)) {
            SCOPED_TRACE(row->name);
            const Results truth = run(*row, problem);
            for (const std::int64_t longest : {0, 1, 1 << 20}) {
                core::Problem lie = core::make_problem(sample.request);
                lie.params.d.max_length = longest;
                const Results lied = run(*row, lie);
                EXPECT_TRUE(same_bits(lied.scores, truth.scores)) << longest;
                EXPECT_TRUE(same_bits(lied.index, truth.index)) << longest;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Lies,
                         ::testing::Combine(::testing::Values(Layout::packed, Layout::packed_list),
                                            ::testing::ValuesIn(types)),
                         [](const auto& chosen) {
                             return std::string(name_of_layout(std::get<0>(chosen.param))) + "_" +
                                    std::string(name_of(std::get<1>(chosen.param)));
                         });

}  // namespace
}  // namespace rowmax::test
