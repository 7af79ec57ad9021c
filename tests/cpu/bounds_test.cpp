// Errors against the double-precision oracle, within the bounds of docs/numerics.md.
#include <gtest/gtest.h>

#include <cmath>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

double bound_of(DType dtype) {
    switch (dtype) {
        case DType::f32: return 2e-7;
        case DType::f64: return 1e-14;
        default: return 1e-6;
    }
}

/// Largest error of a score relative to the sum of |q| |d_win|.
double largest_error(const core::Kernel& row, const core::Problem& problem, const core::reference::Scores& truth) {
    const Results results = run(row, problem, Want::scores);
    double largest = 0;
    for (std::size_t p = 0; p < truth.scores.size(); ++p) {
        largest = std::fmax(largest, std::fabs(results.scores[p] - truth.scores[p]) / truth.scale[p]);
    }
    return largest;
}

void expect_bounded(const Shape& shape, const Values& values) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    const Sample sample(shape, values);
    const core::Problem problem = core::make_problem(sample.request);
    const core::reference::Scores truth = core::reference::score(problem.params);
    for (const core::Kernel* row : rows_for(shape.dtype)) {
        EXPECT_LE(largest_error(*row, problem, truth), bound_of(shape.dtype)) << row->name;
    }
}

TEST(Bounds, SignedValues) {
    for (const DType dtype : token_types) {
        for (const std::int64_t dim : {16, 100, 128, 768, 4096}) {
            expect_bounded({Layout::cross, dtype, 2, 3, 8, 20, dim, false, false, 11}, normal());
        }
    }
}

// Values of one sign are the hard case: a plain chain of additions loses several bits. One query token, so that nothing
// averages out.
TEST(Bounds, ValuesOfOneSign) {
    for (const DType dtype : token_types) {
        for (const std::int64_t dim : {48, 64, 96, 128, 768, 4096}) {
            const std::int64_t count = dim > 1000 ? 8 : 30;
            expect_bounded({Layout::cross, dtype, count, count, 1, 1, dim, false, false, 12}, uniform());
        }
    }
}

// Rows of one repeated number: every addition of a chain rounds the same way.
TEST(Bounds, ConstantRows) {
    std::mt19937 random(3);
    for (const DType dtype : token_types) {
        for (int sample = 0; sample < 40; ++sample) {
            const double x = 1 + uniform()(random);
            const std::int64_t dim = sample % 4 == 3 ? 4096 : 64 + sample;
            expect_bounded({Layout::single, dtype, 1, 2, 1, 3, dim}, [x](std::mt19937&) { return x; });
        }
    }
}

TEST(Bounds, LongQueriesSumExactly) {
    for (const DType dtype : token_types) {
        expect_bounded({Layout::cross, dtype, 1, 2, 2000, 3, 20, false, false, 13}, uniform());
    }
}

TEST(Bounds, Normalized) {
    for (const Layout layout : {Layout::cross, Layout::packed, Layout::ranges}) {
        for (const DType dtype : token_types) {
            for (const std::int64_t dim : {1, 16, 100, 128, 1000}) {
                const Shape shape{layout, dtype, 3, 4, 8, 20, dim, true, true, 14};
                SCOPED_TRACE(::testing::PrintToString(shape));
                const Sample sample(shape, normal());
                const core::Problem problem = core::make_problem(sample.request);
                const core::reference::Scores truth = core::reference::score(problem.params);
                // Four more roundings than a plain product: two inverse norms and two multiplications.
                const double bound = dtype == DType::f64 ? 1e-14 : 4e-7;
                for (const core::Kernel* row : rows_for(dtype)) {
                    const Results results = run(*row, problem);
                    for (std::size_t p = 0; p < truth.scores.size(); ++p) {
                        EXPECT_NEAR(results.scores[p], truth.scores[p], bound * std::fmax(truth.scale[p], 1))
                            << row->name;
                    }
                }
            }
        }
    }
}

// The bound of 2e-7 is tight enough to be broken by a plain chain: this test would notice if the tree went missing.
TEST(Bounds, AChainOfFloatsBreaksThem) {
    std::mt19937 random(5);
    const Values draw = uniform();
    double largest = 0;
    for (int sample = 0; sample < 200; ++sample) {
        float chain = 0;
        double exact = 0;
        double q2 = 0;
        double d2 = 0;
        for (int k = 0; k < 128; ++k) {
            const auto q = static_cast<float>(draw(random));
            const auto d = static_cast<float>(draw(random));
            chain = std::fma(q, d, chain);
            exact += double{q} * double{d};
            q2 += double{q} * double{q};
            d2 += double{d} * double{d};
        }
        largest = std::fmax(largest, std::fabs(double{chain} - exact) / std::sqrt(q2 * d2));
    }
    EXPECT_GT(largest, 2e-7);
}

}  // namespace
}  // namespace rowmax::test
