// NaN, infinities, signed zeros, ties, and norms at the ends of the range, on every row.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// One query token (1, 0) against one document whose tokens start with these numbers.
struct Line {
    Line(DType dtype, const std::vector<double>& firsts, bool normalize = false)
        : q(dtype, {1, 2}, {1, 0}), d(dtype, {static_cast<std::int64_t>(firsts.size()), 2}, interleaved(firsts)) {
        request.q.tokens = q.view();
        request.d.tokens = d.view();
        request.options.normalize = normalize;
    }
    static std::vector<double> interleaved(const std::vector<double>& firsts) {
        std::vector<double> all;
        for (const double x : firsts) all.insert(all.end(), {x, 0});
        return all;
    }
    Array q;
    Array d;
    ScoreRequest request;
};

class Special : public ::testing::TestWithParam<DType> {
  protected:
    void expect(const std::vector<double>& firsts, double score, int token, bool normalize = false) const {
        const Line line(GetParam(), firsts, normalize);
        for (const core::Kernel* row : rows_for(GetParam())) {
            SCOPED_TRACE(row->name);
            const Results r = run(*row, core::make_problem(line.request));
            if (std::isnan(score)) {
                EXPECT_TRUE(std::isnan(r.scores[0]));
            } else {
                EXPECT_EQ(r.scores[0], score);
            }
            EXPECT_EQ(r.index[0], token);
        }
    }
};

TEST_P(Special, NanWinsAtItsLowestToken) {
    expect({1, nan_value, 5, nan_value}, nan_value, 1);
    expect({nan_value, 7}, nan_value, 0);
    std::vector<double> many(100, 1.0);
    many[63] = nan_value;
    many[64] = nan_value;
    expect(many, nan_value, 63);
}

TEST_P(Special, Infinities) {
    expect({1, infinity, infinity}, infinity, 1);
    expect({-infinity, -3}, -3, 1);
    // infinity * 0 in the second dimension is not met: the query's 0 meets the document's 0.
    expect({-infinity, -infinity, -infinity}, -infinity, 0);
}

TEST_P(Special, TiesGoToTheLowestToken) {
    expect({2, 5, 5, 5}, 5, 1);
    expect({-0.0, 0.0}, 0, 0);
    expect(std::vector<double>(65, 3.0), 3, 0);
}

TEST_P(Special, HiddenTokensNeverWin) {
    Line line(GetParam(), {nan_value, 9, -4, infinity, -2});
    const Array mask(DType::f32, {1, 5}, {0, 0, 1, 0, nan_value});  // NaN is not zero: it keeps
    line.request.d.mask = mask.view();
    for (const core::Kernel* row : rows_for(GetParam())) {
        const Results r = run(*row, core::make_problem(line.request));
        EXPECT_EQ(r.scores[0], -2);
        EXPECT_EQ(r.index[0], 4);
    }
}

TEST_P(Special, NormalizedNanAndZero) {
    expect({0, nan_value}, nan_value, 1, true);
    expect({-1, 0}, 0, 1, true);
    expect({0, 0}, 0, 0, true);
}

TEST_P(Special, NormalizedInfinityIsNan) {
    expect({1, infinity}, nan_value, 1, true);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Special, ::testing::ValuesIn(token_types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

// Cosines do not depend on the scale of a token, from the smallest subnormal to near the largest float.
TEST(NormsAtTheEnds, Float32) {
    const Array q(DType::f32, {1, 1, 3}, {3, 0, 4});
    for (const double scale : {1e-42, 1e-38, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e37}) {
        const Array d(DType::f32, {1, 1, 3}, {6 * scale, 0, 8 * scale});
        const Array far(DType::f32, {1, 1, 3}, {3 * scale, 0, 4 * scale});
        for (const Array* query : {&q, &far}) {
            ScoreRequest request;
            request.q.tokens = query->view();
            request.d.tokens = d.view();
            request.options.normalize = true;
            for (const core::Kernel* row : rows_for(DType::f32)) {
                // Subnormals have few bits: there the token itself is not quite (6, 0, 8).
                const double tolerance = scale < 1e-38 ? 1e-2 : 3e-7;
                EXPECT_NEAR(run(*row, core::make_problem(request)).scores[0], 1.0, tolerance)
                    << row->name << " " << scale;
            }
        }
    }
}

TEST(Huge, Float32OverflowsAsDirectArithmeticDoes) {
    const Array q(DType::f32, {1, 2}, {3e38, 0});
    const Array d(DType::f32, {2, 2}, {2, 0, 0.5, 0});
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    for (const core::Kernel* row : rows_for(DType::f32)) {
        const Results r = run(*row, core::make_problem(request));
        EXPECT_EQ(r.scores[0], infinity) << row->name;
        EXPECT_EQ(r.index[0], 0) << row->name;
    }
}

}  // namespace
}  // namespace rowmax::test
