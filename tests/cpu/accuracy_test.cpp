// Random numbers: every row stays within the contract's bound of the double oracle, with signs mixed and all alike,
// and all rows give the same bits.
#include <gtest/gtest.h>

#include <cmath>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

double bound(DType dtype) {
    switch (dtype) {
        case DType::f32: return 2e-7;
        case DType::f64: return 1e-14;
        default: return 1e-6;
    }
}

void expect_close(const Shape& shape, const Values& values) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    const Sample sample(shape, values);
    const core::Problem problem = core::make_problem(sample.request);
    const core::reference::Scores truth = core::reference::score(problem.params);
    const std::vector<const core::Kernel*> rows = rows_for(shape.dtype);
    const Results first = run(*rows.front(), problem);
    for (std::size_t p = 0; p < truth.scores.size(); ++p) {
        EXPECT_LE(std::fabs(first.scores[p] - truth.scores[p]), bound(shape.dtype) * truth.scale[p]) << "pair " << p;
    }
    for (const core::Kernel* row : rows) {
        SCOPED_TRACE(row->name);
        const Results same = run(*row, problem);
        EXPECT_TRUE(same_bits(same.scores, first.scores));
        EXPECT_TRUE(same_bits(same.index, first.index));
        EXPECT_TRUE(same_bits(same.similarity, first.similarity));
    }
}

class EveryType : public ::testing::TestWithParam<DType> {};

TEST_P(EveryType, MixedSigns) {
    unsigned seed = 10;
    for (const std::int64_t dim : {3, 96, 128, 1000}) {
        expect_close({Layout::cross, GetParam(), 2, 3, 20, 45, dim, true, false, ++seed}, normal());
        expect_close({Layout::packed, GetParam(), 2, 3, 20, 45, dim, false, true, ++seed}, normal());
    }
}

// One query token: nothing averages the error of a similarity away.
TEST_P(EveryType, OneSign) {
    unsigned seed = 20;
    for (const std::int64_t dim : {64, 128, 768, 4096}) {
        expect_close({Layout::single, GetParam(), 1, 24, 1, 20, dim, false, false, ++seed}, uniform());
        expect_close({Layout::single, GetParam(), 1, 24, 1, 20, dim, false, true, ++seed}, uniform());
    }
}

// Rows of one repeated number: every addition rounds the same way.
TEST_P(EveryType, ConstantRows) {
    for (const double x : {1.0002442598342896, 0.7, 1.9999999}) {
        for (const std::int64_t dim : {64, 129, 4096}) {
            expect_close({Layout::single, GetParam(), 1, 2, 1, 3, dim}, [x](std::mt19937&) { return x; });
        }
    }
}

TEST_P(EveryType, LongQueries) {
    expect_close({Layout::single, GetParam(), 1, 2, 1030, 9, 16, false, false, 5}, uniform());
    expect_close({Layout::single, GetParam(), 1, 1, 4099, 5, 8, true, false, 6}, uniform());
}

INSTANTIATE_TEST_SUITE_P(Cpu, EveryType, ::testing::ValuesIn(token_types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

}  // namespace
}  // namespace rowmax::test
