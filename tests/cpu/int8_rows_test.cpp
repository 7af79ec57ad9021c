// int8 codes with scales on every row under test: exact products, and the contract of scales.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

const float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

void expect_exact(const Shape& shape, const Values& values) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    const Sample sample(shape, values);
    const core::Problem problem = core::make_problem(sample.request);
    const core::reference::Scores truth = core::reference::score(problem.params);
    const std::vector<double> index(truth.index.begin(), truth.index.end());
    for (const core::Kernel* row : rows_for(DType::i8)) {
        SCOPED_TRACE(row->name);
        const Results results = run(*row, problem);
        EXPECT_EQ(results.similarity.values(), truth.similarity);
        EXPECT_EQ(results.index.values(), index);
        // Devices add the first eight maxima in float32.
        const double error = row->backend == "cpu" ? 0 : 2e-7;
        for (std::size_t p = 0; p < truth.scores.size(); ++p) {
            EXPECT_NEAR(results.scores[p], static_cast<float>(truth.scores[p]), error * truth.scale[p]);
        }
    }
}

class Int8Layouts : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Every, Int8Layouts, ::testing::ValuesIn(all_layouts),
                         [](const auto& chosen) { return std::string(name_of_layout(chosen.param)); });

TEST_P(Int8Layouts, OddLengths) {
    unsigned seed = 1;
    for (const std::int64_t lq : {0, 1, 7, 9, 31, 33}) {
        for (const std::int64_t ld : {0, 1, 7, 33, 180}) {
            for (const bool per_item : {false, true}) {
                expect_exact({GetParam(), DType::i8, 3, 4, lq, ld, 17, true, false, ++seed, per_item}, any_codes());
            }
        }
    }
}

// Codes at the ends of their range: sums of products need all 32 bits, and every step in between must hold them.
TEST_P(Int8Layouts, Dimensions) {
    unsigned seed = 1;
    for (const std::int64_t dim : {1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 48, 96, 127, 128, 129, 768, 4095, 4096}) {
        expect_exact({GetParam(), DType::i8, 2, 2, 19, 14, dim, true, false, ++seed}, any_codes());
    }
}

TEST(Int8, TheLargestSums) {
    for (const double q : {-128.0, 127.0}) {
        for (const double d : {-128.0, 127.0}) {
            const Array query(DType::i8, {20, 4096}, {q});
            const Array document(DType::i8, {3, 4096}, {d});
            const Array one(DType::f32, {}, {1});
            ScoreRequest request;
            request.q.tokens = query.view();
            request.d.tokens = document.view();
            request.q.scale = request.d.scale = one.view();
            for (const core::Kernel* row : rows_for(DType::i8)) {
                SCOPED_TRACE(row->name);
                const Results results = run(*row, core::make_problem(request));
                EXPECT_EQ(results.similarity[19], static_cast<float>(q * d * 4096));
            }
        }
    }
}

/// Scores of one query with tokens of two codes.
struct Small {
    std::vector<double> q, q_scale, d, d_scale;

    template <class Check>
    void on_every_row(Check check) const {
        const Array query(DType::i8, {static_cast<std::int64_t>(q_scale.size()), 2}, q);
        const Array document(DType::i8, {static_cast<std::int64_t>(d_scale.size()), 2}, d);
        const Array query_scale(DType::f32, {static_cast<std::int64_t>(q_scale.size())}, q_scale);
        const Array document_scale(DType::f32, {static_cast<std::int64_t>(d_scale.size())}, d_scale);
        ScoreRequest request;
        request.q = {query.view(), {}, {}, {}, {}, -1, query_scale.view()};
        request.d = {document.view(), {}, {}, {}, {}, -1, document_scale.view()};
        for (const core::Kernel* row : rows_for(DType::i8)) {
            SCOPED_TRACE(row->name);
            check(run(*row, core::make_problem(request)));
        }
    }
};

TEST(Int8, TheDocumentsScaleDecidesTheWinnerAndTheQuerysJoinsLater) {
    Small{{1, 0, -1, 0}, {0.5, 3}, {100, 0, 10, 0, -5, 0}, {0.01, 1, 2}}.on_every_row([](const Results& r) {
        EXPECT_EQ(r.index.values(), (std::vector<double>{1, 2}));
        EXPECT_EQ(r.similarity.values(), (std::vector<double>{5, 30}));
        EXPECT_EQ(r.scores[0], 35);
    });
}

TEST(Int8, ANanScaleOfADocumentTokenWins) {
    Small{{1, 1}, {1}, {9, 9, 1, 1, 1, 1}, {1, nan, nan}}.on_every_row([](const Results& r) {
        EXPECT_TRUE(std::isnan(r.scores[0]));
        EXPECT_EQ(r.index[0], 1);
    });
}

TEST(Int8, ANanScaleOfAQueryTokenMakesAllItsSimilaritiesNan) {
    Small{{1, 1, 1, 1}, {nan, 1}, {1, 1, 9, 9}, {1, 1}}.on_every_row([](const Results& r) {
        EXPECT_TRUE(std::isnan(r.scores[0]));
        EXPECT_EQ(r.index.values(), (std::vector<double>{0, 1}));
        EXPECT_EQ(r.similarity[1], 18);
    });
}

TEST(Int8, InfiniteScalesPassThrough) {
    Small{{1, 1}, {1}, {-1, -1, 0, 0, 1, 1}, {inf, inf, inf}}.on_every_row([](const Results& r) {
        EXPECT_TRUE(std::isnan(r.scores[0]));
        EXPECT_EQ(r.index[0], 1);
    });
    Small{{1, 1}, {1}, {-1, -1, -1, -1}, {inf, inf}}.on_every_row([](const Results& r) {
        EXPECT_EQ(r.scores[0], -inf);
        EXPECT_EQ(r.index[0], 0);
    });
}

// float(integer): sums beyond 2^24 are rounded to nearest even, once.
TEST(Int8, LargeSumsAreRoundedOnce) {
    std::vector<double> q(4096, 127);
    std::vector<double> d(4096, 127);
    d[0] = 126;
    const Array query(DType::i8, {1, 4096}, q);
    const Array document(DType::i8, {1, 4096}, d);
    const Array one(DType::f32, {1}, {1});
    ScoreRequest request;
    request.q.tokens = query.view();
    request.d.tokens = document.view();
    request.q.scale = request.d.scale = one.view();
    const double exact = 127.0 * 127 * 4096 - 127;
    ASSERT_NE(static_cast<double>(static_cast<float>(exact)), exact);
    for (const core::Kernel* row : rows_for(DType::i8)) {
        EXPECT_EQ(run(*row, core::make_problem(request)).scores[0], static_cast<float>(exact)) << row->name;
    }
}

// A pair alone, in a batch, packed, on more threads: the same bits.
TEST(Int8, InvarianceOfPairs) {
    const Shape shape{Layout::cross, DType::i8, 5, 40, 37, 300, 96, false, false, 3};
    const Sample sample(shape, any_codes());
    for (const core::Kernel* row : rows_for(DType::i8)) {
        SCOPED_TRACE(row->name);
        const core::Problem whole = core::make_problem(sample.request);
        const Results truth = run(*row, whole);
        EXPECT_TRUE(same_bits(run(*row, whole, Want::scores, 3).scores, truth.scores));
        ScoreRequest packed = sample.request;
        const std::vector<double> starts = [] {
            std::vector<double> all(41);
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<double>(300 * i);
            return all;
        }();
        const Array cu_seqlens(DType::i64, {41}, starts);
        packed.d.tokens = {packed.d.tokens.data, DType::i8, {40 * 300, 96}};
        packed.d.scale = {packed.d.scale.data, DType::f32, {40 * 300}};
        packed.d.cu_seqlens = cu_seqlens.view();
        EXPECT_TRUE(same_bits(run(*row, core::make_problem(packed), Want::all, 2).similarity, truth.similarity));
        for (const std::int64_t i : {0, 4}) {
            for (const std::int64_t j : {0, 7, 39}) {
                const auto item = [](const TensorView& view, std::int64_t n) {
                    TensorView one = view;
                    one.data = static_cast<std::byte*>(view.data) +
                               n * view.stride[0] * static_cast<std::int64_t>(size_of(view.dtype));
                    one.shape[0] = 1;
                    return one;
                };
                ScoreRequest alone;
                alone.q = {item(sample.request.q.tokens, i), {}, {}, {}, {}, -1, item(sample.request.q.scale, i)};
                alone.d = {item(sample.request.d.tokens, j), {}, {}, {}, {}, -1, item(sample.request.d.scale, j)};
                EXPECT_EQ(run(*row, core::make_problem(alone)).scores[0],
                          truth.scores[static_cast<std::size_t>(i * 40 + j)]);
            }
        }
    }
}

// Rows and scales with gaps, documents in reverse, a broadcast query.
TEST(Int8, StridedViews) {
    const Sample sample({Layout::cross, DType::i8, 1, 3, 5, 19, 24, false, false, 3}, any_codes());
    const Array tokens(DType::i8, {3, 19, 41}, {127});
    const Array scale(DType::f32, {3, 19, 2}, {nan});
    const auto* from = static_cast<const std::byte*>(sample.request.d.tokens.data);
    const auto* from_scale = static_cast<const float*>(sample.request.d.scale.data);
    for (std::int64_t row = 0; row < 57; ++row) {
        const std::int64_t to = (2 - row / 19) * 19 + row % 19;
        std::memcpy(static_cast<std::byte*>(tokens.view().data) + to * 41, from + row * 24, 24);
        static_cast<float*>(scale.view().data)[to * 2] = from_scale[row];
    }
    ScoreRequest request = sample.request;
    request.d.tokens = tokens.view();
    request.d.tokens.data = static_cast<std::byte*>(tokens.view().data) + 2 * 19 * 41;
    request.d.tokens.shape = {3, 19, 24, 0};
    request.d.tokens.stride = {-19 * 41, 41, 1, 0};
    request.d.scale = scale.view();
    request.d.scale.ndim = 2;
    request.d.scale.data = static_cast<float*>(scale.view().data) + 2 * 19 * 2;
    request.d.scale.shape = {3, 19, 0, 0};
    request.d.scale.stride = {-19 * 2, 2, 0, 0};
    for (const core::Kernel* row : rows_for(DType::i8)) {
        EXPECT_TRUE(same_bits(run(*row, core::make_problem(request)).similarity,
                              run(*row, core::make_problem(sample.request)).similarity));
    }
}

}  // namespace
}  // namespace rowmax::test
