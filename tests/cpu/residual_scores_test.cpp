// Scores of residual documents on every row of a table: against the oracle, which decodes bit by bit, in every layout.
#include <gtest/gtest.h>

#include <cmath>

#include "cpu/residual_sample.hpp"

namespace rowmax::test {
namespace {

class ResidualLayouts : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Every, ResidualLayouts, ::testing::ValuesIn(all_layouts),
                         [](const auto& chosen) { return std::string(name_of_layout(chosen.param)); });

TEST_P(ResidualLayouts, SmallNumbersAreExact) {
    unsigned seed = 1;
    for (const int nbits : {1, 2, 4, 8}) {
        for (const BitOrder order : {BitOrder::little, BitOrder::colbert}) {
            for (const std::int64_t lq : {1, 9, 33}) {
                const Shape shape{GetParam(), DType::f32, 3, 4, lq, 50, 40, true, false, ++seed};
                SCOPED_TRACE(::testing::PrintToString(shape));
                const Residuals r(shape, nbits, order, false, small_integers(300));
                const core::Problem problem = core::make_problem(r.request);
                const core::reference::Scores truth = core::reference::score(problem.params);
                for (const core::Kernel* row : residual_rows()) {
                    SCOPED_TRACE(row->name);
                    const Results got = run(*row, problem);
                    EXPECT_EQ(got.scores.values(), truth.scores);
                    EXPECT_EQ(got.similarity.values(), truth.similarity);
                    EXPECT_EQ(got.index.values(), (std::vector<double>(truth.index.begin(), truth.index.end())));
                }
            }
        }
    }
}

TEST_P(ResidualLayouts, NormalisedTokensAreWithinTheBound) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const Shape shape{GetParam(), dtype, 3, 4, 20, 50, 128, true, false, 5};
        const Residuals r(shape, 4, BitOrder::colbert, true, normal(), 300, dtype);
        const core::Problem problem = core::make_problem(r.request);
        const core::reference::Scores truth = core::reference::score(problem.params);
        const Results first = run(*residual_rows().front(), problem);
        for (std::size_t p = 0; p < truth.scores.size(); ++p) {
            EXPECT_LE(std::fabs(first.scores[p] - truth.scores[p]), 7e-7 * truth.scale[p]) << name_of(dtype);
        }
        for (const core::Kernel* row : residual_rows()) {
            EXPECT_TRUE(same_bits(run(*row, problem, Want::all, 2).similarity, first.similarity)) << row->name;
        }
    }
}

// Cosines, whether or not tokens are normalised when they are decoded.
TEST(Residual, NormalizeOfTheRequest) {
    for (const bool decoded : {false, true}) {
        Residuals r({Layout::cross, DType::f32, 3, 4, 18, 21, 48, false, false, 6}, 4, BitOrder::little, decoded,
                    normal());
        r.request.options.normalize = true;
        const core::Problem problem = core::make_problem(r.request);
        const core::reference::Scores truth = core::reference::score(problem.params);
        for (const core::Kernel* row : residual_rows()) {
            const Results got = run(*row, problem);
            for (std::size_t p = 0; p < truth.scores.size(); ++p) {
                EXPECT_NEAR(got.scores[p], truth.scores[p], 7e-7 * truth.scale[p]) << row->name;
            }
        }
    }
}

// Tables and queries of every type, dimensions that are no multiple of what kernels take at once.
TEST(Residual, EveryTypeAndDimension) {
    unsigned seed = 40;
    for (const DType q : {DType::f32, DType::f16, DType::bf16}) {
        for (const DType table : {DType::f32, DType::f16, DType::bf16}) {
            for (const int nbits : {1, 2, 4, 8}) {
                for (const std::int64_t dim : {8, 72, 128, 520}) {
                    const Shape shape{Layout::packed, q, 2, 5, 13, 40, dim, false, false, ++seed};
                    const Residuals r(shape, nbits, BitOrder::colbert, seed % 2 == 0, normal(), 50, table);
                    const core::Problem problem = core::make_problem(r.request);
                    const core::reference::Scores truth = core::reference::score(problem.params);
                    for (const core::Kernel* row : residual_rows()) {
                        const Results got = run(*row, problem);
                        EXPECT_TRUE(same_bits(run(*row, problem, Want::scores).scores, got.scores));
                        for (std::size_t p = 0; p < truth.scores.size(); ++p) {
                            EXPECT_NEAR(got.scores[p], truth.scores[p], 7e-7 * truth.scale[p])
                                << row->name << " " << shape << " nbits " << nbits << " " << name_of(table);
                        }
                    }
                }
            }
        }
    }
}

bool same_numbers(const Array& a, const Array& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
    }
    return a.size() == b.size();
}

// Kernels of their own take 128 dimensions and float16 tables without a mask: one that hides nothing changes nothing.
TEST(Residual, HalvesHaveTheBitsOfOtherTables) {
    const Values wild = [](std::mt19937& random) {
        const double odd[] = {HUGE_VAL, NAN, 60000, -60000, 1e-7};
        return random() % 2000 < 5 ? odd[random() % 5] : std::normal_distribution<double>()(random);
    };
    unsigned seed = 300;
    for (const Values& values : {normal(), wild}) {
        for (const DType q : {DType::f16, DType::f32}) {
            for (const int nbits : {1, 2, 4, 8}) {
                for (const BitOrder order : {BitOrder::little, BitOrder::colbert}) {
                    const Shape shape{Layout::cross, q, 2, 9, 40, 70, 128, false, false, ++seed};
                    Residuals r(shape, nbits, order, seed % 3 != 0, values, 50, DType::f16);
                    const core::Problem plain = core::make_problem(r.request);
                    const Array nothing_hidden = Array::generated(DType::u8, {9, 70}, [] { return 1.0; });
                    r.request.d.mask = nothing_hidden.view();
                    const core::Problem masked = core::make_problem(r.request);
                    for (const core::Kernel* row : residual_rows()) {
                        SCOPED_TRACE(std::string(row->name) + " " + text_of(shape));
                        const Results want = run(*row, masked);
                        const Results got = run(*row, plain);
                        EXPECT_TRUE(same_numbers(got.scores, want.scores));
                        EXPECT_TRUE(same_numbers(got.similarity, want.similarity));
                        EXPECT_TRUE(same_numbers(got.index, want.index));
                        EXPECT_TRUE(same_numbers(run(*row, plain, Want::scores).scores, want.scores));
                    }
                }
            }
        }
    }
}

// Centroids and weights that cancel each other, to zero or nearly, and tables of magnitudes far from 1.
TEST(Residual, TokensThatVanish) {
    for (const double size : {1.0, 1e-12, 1e12}) {
        for (const int nbits : {1, 2, 4}) {
            const Values whole = small_integers(8);
            const Values some = [&](std::mt19937& random) {
                return size * (whole(random) + 1e-4 * (static_cast<double>(random() % 3) - 1));
            };
            const Residuals r({Layout::cross, DType::f32, 3, 20, 9, 30, 8, false, false, 3}, nbits, BitOrder::little,
                              true, some);
            const core::Problem problem = core::make_problem(r.request);
            const core::reference::Scores truth = core::reference::score(problem.params);
            for (const core::Kernel* row : residual_rows()) {
                const Results got = run(*row, problem);
                for (std::size_t p = 0; p < truth.scores.size(); ++p) {
                    EXPECT_NEAR(got.scores[p], truth.scores[p], 7e-7 * truth.scale[p])
                        << row->name << " nbits " << nbits;
                }
            }
        }
    }
}

// Infinities, NaN and numbers whose squares overflow: what the plainest row of the CPU says.
TEST(Residual, NumbersOutOfRange) {
    for (const bool normalize : {false, true}) {
        const Values wild = [](std::mt19937& random) {
            const double odd[] = {HUGE_VAL, -HUGE_VAL, NAN, 1e30, -1e30, 1e-30};
            return random() % 300 < 6 ? odd[random() % 6] : static_cast<double>(random() % 7) - 3;
        };
        const Residuals r({Layout::cross, DType::f32, 3, 40, 9, 30, 16, false, false, 3}, 4, BitOrder::little,
                          normalize, wild, 60);
        const core::Problem problem = core::make_problem(r.request);
        const Results want = run_on_cpu(core::cpu_kernels().back(), problem);
        for (const core::Kernel* row : residual_rows()) {
            const Results got = run(*row, problem);
            for (std::size_t p = 0; p < want.similarity.size(); ++p) {
                const double w = want.similarity[p];
                const double g = got.similarity[p];
                const bool same = w == g || (std::isnan(w) && std::isnan(g)) || std::fabs(g - w) <= 1e-6 * std::fabs(w);
                EXPECT_TRUE(same) << row->name << ": " << g << ", not " << w << " at " << p;
            }
        }
    }
}

}  // namespace
}  // namespace rowmax::test
