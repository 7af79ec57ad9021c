// Normalisation on every row: the same bits whichever row finds the norms, and right for norms of any size.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "cuda/expect.hpp"

namespace rowmax::test {
namespace {

constexpr DType half_types[] = {DType::f16, DType::bf16};

/// Normal numbers, every token of another size: a power of two of up to `exponent`, or zero.
Values tokens_of_many_sizes(std::int64_t dim, int exponent) {
    struct State {
        std::int64_t element = 0;
        double size = 1;
    };
    return [dim, exponent, state = std::make_shared<State>(), draw = normal()](std::mt19937& random) {
        if (state->element++ % dim == 0) {
            const auto pick = static_cast<int>(random() % 9);
            state->size = pick == 0 ? 0 : std::ldexp(1.0, (pick - 5) * exponent / 4);
        }
        return state->size * draw(random);
    };
}

/// Powers of two that a type holds with room to spare for normal numbers.
int largest_exponent(DType dtype) {
    return dtype == DType::f16 ? 12 : 110;
}

void expect_right(const Sample& sample) {
    SCOPED_TRACE(::testing::PrintToString(sample.shape()));
    const core::Problem problem = core::make_problem(sample.request);
    const core::reference::Scores truth = core::reference::score(problem.params);
    for (const core::Kernel* row : rows_for(sample.shape().dtype)) {
        const Results results = run(*row, problem, Want::scores);
        for (std::size_t p = 0; p < truth.scores.size(); ++p) {
            // The bound of half types, and four more roundings than a plain product.
            EXPECT_NEAR(results.scores[p], truth.scores[p], 1.3e-6 * std::fmax(truth.scale[p], 1)) << row->name;
        }
    }
}

class Normalized : public ::testing::TestWithParam<std::tuple<Layout, DType>> {};

TEST_P(Normalized, RowsAgreeBitForBit) {
    const auto [layout, dtype] = GetParam();
    std::mt19937 random(5);
    constexpr std::int64_t lqs[] = {1, 20, 32, 33, 64, 65, 100, 128, 200, 300};
    constexpr std::int64_t lds[] = {1, 33, 64, 100, 128, 129, 180, 300};
    constexpr std::int64_t dims[] = {16, 48, 64, 72, 128, 192, 200, 256, 320, 768};
    for (unsigned i = 0; i < 12; ++i) {
        const auto one_of = [&](const auto& list) { return list[random() % std::size(list)]; };
        const std::int64_t dim = one_of(dims);
        const Shape shape{layout, dtype, 2, 5, one_of(lqs), one_of(lds), dim, random() % 2 == 0, true, i};
        expect_same_bits_on_every_row(Sample(shape, normal()));
        expect_same_bits_on_every_row(Sample(shape, tokens_of_many_sizes(dim, largest_exponent(dtype))));
    }
}

TEST_P(Normalized, NormsOfAnySize) {
    const auto [layout, dtype] = GetParam();
    for (const std::int64_t dim : {16, 128, 320}) {
        for (const std::int64_t lq : {20, 60, 80}) {
            const Shape shape{layout, dtype, 2, 4, lq, 140, dim, true, true, static_cast<unsigned>(dim + lq)};
            expect_right(Sample(shape, tokens_of_many_sizes(dim, largest_exponent(dtype))));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Normalized,
                         ::testing::Combine(::testing::ValuesIn(all_layouts), ::testing::ValuesIn(half_types)),
                         [](const auto& chosen) {
                             return std::string(name_of_layout(std::get<0>(chosen.param))) + "_" +
                                    std::string(name_of(std::get<1>(chosen.param)));
                         });

class NormalizedShapes : public ::testing::TestWithParam<DType> {};

TEST_P(NormalizedShapes, ManyUnitsForEachThreadBlock) {
    for (const std::int64_t lq : {32, 50, 100, 300}) {
        for (const std::int64_t dim : {64, 128, 256}) {
            const auto seed = static_cast<unsigned>(lq + dim);
            expect_same_bits_on_every_row(
                Sample({Layout::cross, GetParam(), 1, 400, lq, 70, dim, true, true, seed}, normal()));
            expect_same_bits_on_every_row(
                Sample({Layout::packed, GetParam(), 3, 100, lq, 150, dim, false, true, seed}, normal()));
        }
    }
    expect_same_bits_on_every_row(Sample({Layout::zipped, GetParam(), 300, 300, 24, 90, 128, true, true, 5}, normal()));
}

TEST_P(NormalizedShapes, LongDocumentsAreCut) {
    for (const std::int64_t lq : {32, 150}) {
        for (const std::int64_t dim : {64, 320}) {
            expect_same_bits_on_every_row(
                Sample({Layout::cross, GetParam(), 2, 3, lq, 5001, dim, true, true, 2}, normal()));
        }
    }
}

TEST_P(NormalizedShapes, ZeroTokensStayZero) {
    for (const std::int64_t lq : {32, 150}) {
        for (const std::int64_t dim : {128, 320}) {
            const Sample sample({Layout::cross, GetParam(), 2, 3, lq, 200, dim, false, true, 2},
                                [](std::mt19937&) { return 0.0; });
            const core::Problem problem = core::make_problem(sample.request);
            for (const core::Kernel* row : rows_for(GetParam())) {
                const Results results = run(*row, problem);
                EXPECT_EQ(results.scores.values(), std::vector<double>(6, 0.0)) << row->name;
                EXPECT_EQ(results.index.values(), std::vector<double>(results.index.size(), 0.0)) << row->name;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, NormalizedShapes, ::testing::ValuesIn(half_types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

// Two similarities that differ in their last bit, and are often equal when multiplied by the inverse norm of the query
// token: the larger one wins whether or not they fall into different parts of a document.
TEST(NormalizedParts, WinnersAreThoseOfTheWholeDocument) {
    constexpr std::int64_t lq = 40;
    constexpr std::int64_t ld = 3000;
    constexpr std::int64_t dim = 8;
    constexpr std::int64_t many = 300;
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
        Array q(dtype, {1, lq, dim});
        for (std::size_t s = 0; s < lq; ++s) {
            q.set(s * dim, 1.9375);
            q.set(s * dim + 1, std::ldexp(1.0, -10));
            q.set(s * dim + 2, 3 + static_cast<double>(s) / 64);
        }
        Array d(dtype, {1, ld, dim});
        for (const std::size_t token : {5, 2900}) d.set(token * dim, 1);
        d.set(2900 * dim + 1, std::ldexp(1.0, -13));
        ScoreRequest request;
        request.q.tokens = q.view();
        request.options.normalize = true;
        const auto results = [&](const core::Kernel& row, std::int64_t documents) {
            request.d.tokens = d.view();
            request.d.tokens.shape[0] = documents;
            request.d.tokens.stride[0] = 0;
            return run(row, core::make_problem(request));
        };
        for (const core::Kernel* row : rows_for(dtype)) {
            SCOPED_TRACE(row->name);
            const Results cut = results(*row, 1);
            const Results whole = results(*row, many);
            EXPECT_EQ(cut.index.values(), std::vector<double>(lq, 2900));
            EXPECT_EQ(cut.scores[0], whole.scores[0]);
            for (std::size_t s = 0; s < lq; ++s) {
                EXPECT_EQ(cut.index[s], whole.index[s]);
                EXPECT_EQ(cut.similarity[s], whole.similarity[s]);
            }
        }
    }
}

}  // namespace
}  // namespace rowmax::test
