// NaN, infinities, signed zeros, ties, and tokens of extreme size.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

/// Few query tokens take another kernel than many: the same tokens, again and again, find the same.
void expect_same_in_a_long_query(const core::Kernel& row, ScoreRequest request, const std::vector<double>& q,
                                 const Results& few) {
    constexpr std::size_t times = 40;
    std::vector<double> repeated;
    for (std::size_t i = 0; i < times; ++i) repeated.insert(repeated.end(), q.begin(), q.end());
    const std::int64_t dim = request.q.tokens.shape[1];
    const Array queries(request.q.tokens.dtype, {static_cast<std::int64_t>(repeated.size()) / dim, dim}, repeated);
    request.q.tokens = queries.view();
    const Results many = run(row, core::make_problem(request));
    const auto expect_repeated = [&](const Array& got, const Array& once) {
        const std::size_t bytes = once.values().size() * size_of(once.view().dtype);
        for (std::size_t i = 0; i < times; ++i) {
            const auto* at = static_cast<const std::byte*>(got.view().data) + i * bytes;
            EXPECT_EQ(std::memcmp(at, once.view().data, bytes), 0) << "repetition " << i;
        }
    };
    expect_repeated(many.similarity, few.similarity);
    expect_repeated(many.index, few.index);
}

/// Query tokens [lq, dim] against document tokens [ld, dim], on every row that takes the type.
template <class Check>
void score_on_every_row(DType dtype, std::int64_t dim, const std::vector<double>& q, const std::vector<double>& d,
                        bool normalize, Check check) {
    const Array queries(dtype, {static_cast<std::int64_t>(q.size()) / dim, dim}, q);
    const Array document(dtype, {static_cast<std::int64_t>(d.size()) / dim, dim}, d);
    ScoreRequest request;
    request.q.tokens = queries.view();
    request.d.tokens = document.view();
    request.options.normalize = normalize;
    const core::Problem problem = core::make_problem(request);
    for (const core::Kernel* row : rows_for(dtype)) {
        SCOPED_TRACE(row->name);
        const Results results = run(*row, problem);
        check(results);
        expect_same_in_a_long_query(*row, request, q, results);
    }
}

/// d[t] = value at position `at`, everything else `rest`: a document of one-dimensional tokens.
std::vector<double> ramp(std::size_t length, double rest, std::size_t at, double value) {
    std::vector<double> d(length, rest);
    d[at] = value;
    return d;
}

class Places : public ::testing::TestWithParam<std::tuple<DType, std::size_t>> {};

// At every place of a tile, the first row, the last, and beyond a block.
INSTANTIATE_TEST_SUITE_P(Cpu, Places,
                         ::testing::Combine(::testing::ValuesIn(token_types),
                                            ::testing::Values(0, 1, 5, 6, 7, 8, 11, 12, 200, 399, 400)),
                         [](const auto& chosen) {
                             return std::string(name_of(std::get<0>(chosen.param))) + "_" +
                                    std::to_string(std::get<1>(chosen.param));
                         });

TEST_P(Places, NanWins) {
    const auto [dtype, at] = GetParam();
    score_on_every_row(dtype, 1, {1, -1}, ramp(401, 2, at, nan), false, [&, place = at](const Results& r) {
        EXPECT_TRUE(std::isnan(r.scores[0]));
        EXPECT_EQ(r.index.values(), (std::vector<double>{double(place), double(place)}));
        EXPECT_TRUE(std::isnan(r.similarity[0]));
    });
}

TEST_P(Places, TheFirstNanWins) {
    const auto [dtype, at] = GetParam();
    std::vector<double> d(402, 3);
    for (std::size_t t = at; t < d.size(); t += 2) d[t] = nan;
    d.back() = inf;
    score_on_every_row(dtype, 1, {1}, d, false, [&, place = at](const Results& r) {
        EXPECT_TRUE(std::isnan(r.scores[0]));
        EXPECT_EQ(r.index[0], double(place));
    });
}

TEST_P(Places, InfinityWinsAndTheLowestTokenAmongEquals) {
    const auto [dtype, at] = GetParam();
    std::vector<double> d = ramp(402, 1, at, inf);
    d.back() = inf;
    score_on_every_row(dtype, 1, {2}, d, false, [&, place = at](const Results& r) {
        EXPECT_EQ(r.scores[0], inf);
        EXPECT_EQ(r.index[0], double(place));
    });
}

TEST(SpecialValues, AllMinusInfinity) {
    for (const DType dtype : token_types) {
        for (const std::size_t length : {1, 5, 7, 50}) {
            score_on_every_row(dtype, 1, {1, 3}, std::vector<double>(length, -inf), false, [](const Results& r) {
                EXPECT_EQ(r.scores[0], -inf);
                EXPECT_EQ(r.index.values(), (std::vector<double>{0, 0}));
            });
        }
    }
}

TEST(SpecialValues, InfinitiesOfBothSignsInAProductAreNan) {
    for (const DType dtype : token_types) {
        score_on_every_row(dtype, 2, {1, -1}, {0, 5, inf, inf}, false, [](const Results& r) {
            EXPECT_TRUE(std::isnan(r.scores[0]));
            EXPECT_EQ(r.index[0], 1);
        });
    }
}

TEST(SpecialValues, ZeroOfEitherSignTies) {
    for (const DType dtype : token_types) {
        score_on_every_row(dtype, 1, {1}, {-1, -0.0, 0.0, -0.0}, false, [](const Results& r) {
            EXPECT_EQ(r.scores[0], 0);
            EXPECT_EQ(r.index[0], 1);
        });
        score_on_every_row(dtype, 1, {1}, {-1, 0.0, -0.0}, false, [](const Results& r) { EXPECT_EQ(r.index[0], 1); });
    }
}

TEST(SpecialValues, NanReachesOnlyItsOwnPair) {
    const Array q(DType::f32, {2, 1, 2}, {1, 0, 0, 1});
    const Array d(DType::f32, {2, 2, 2}, {nan, nan, 1, 1, 3, 4, 5, 6});
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    const core::Problem problem = core::make_problem(request);
    for (const core::Kernel* row : rows_for(DType::f32)) {
        const Results r = run(*row, problem);
        EXPECT_TRUE(std::isnan(r.scores[0]));
        EXPECT_EQ(r.scores[1], 5);
        EXPECT_TRUE(std::isnan(r.scores[2]));
        EXPECT_EQ(r.scores[3], 6);
    }
}

TEST(SpecialValues, FloatsBeyondHalfRange) {
    score_on_every_row(DType::f32, 1, {70000, 1e30}, {1, 3e5}, false, [](const Results& r) {
        EXPECT_EQ(r.similarity[0], 70000.0F * 3e5F);
        EXPECT_EQ(r.index[1], 1);
    });
}

// |x| = 1e20 squares to infinity in float, 1e-20 to zero, and 1e-45 has an inverse beyond float.
TEST(SpecialValues, NormsOfAnySize) {
    for (const double size : {1e-45, 1e-38, 1e-20, 1e-10, 1.0, 1e10, 1e20, 1e38}) {
        for (const double other : {1e-45, 1e-20, 1.0, 1e20, 1e38}) {
            score_on_every_row(DType::f32, 2, {3 * size, 0, 0, 2 * size}, {0, -other, other, 0, 0, 2 * other}, true,
                               [&](const Results& r) {
                                   EXPECT_NEAR(r.scores[0], 2, 1e-6) << size << " " << other;
                                   EXPECT_EQ(r.index.values(), (std::vector<double>{1, 2}));
                               });
        }
    }
    for (const double size : {5e-324, 1e-300, 1e300}) {
        score_on_every_row(DType::f64, 2, {size, 0}, {0, size, size, 0}, true, [&](const Results& r) {
            EXPECT_NEAR(r.scores[0], 1, 1e-14) << size;
            EXPECT_EQ(r.index[0], 1);
        });
    }
    score_on_every_row(DType::bf16, 2, {1e20, 0}, {0, 1e-30, 1e-30, 0}, true, [](const Results& r) {
        EXPECT_NEAR(r.scores[0], 1, 1e-6);
        EXPECT_EQ(r.index[0], 1);
    });
}

TEST(SpecialValues, NormalizedOddRows) {
    for (const DType dtype : token_types) {
        // A zero token has similarity 0 with everything, and wins over negative ones.
        score_on_every_row(dtype, 2, {3, 4}, {-6, -8, 0, 0}, true, [](const Results& r) {
            EXPECT_EQ(r.scores[0], 0);
            EXPECT_EQ(r.index[0], 1);
        });
        // x / |x| of a token with an infinity is NaN, on either side.
        score_on_every_row(dtype, 2, {1, 0}, {1, 1, inf, 1}, true, [](const Results& r) {
            EXPECT_TRUE(std::isnan(r.scores[0]));
            EXPECT_EQ(r.index[0], 1);
        });
        score_on_every_row(dtype, 2, {inf, 1}, {1, 1, 2, 1}, true, [](const Results& r) {
            EXPECT_TRUE(std::isnan(r.scores[0]));
            EXPECT_EQ(r.index[0], 0);
        });
    }
}

TEST(SpecialValues, EveryHalfIsWidenedExactly) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
        std::vector<double> all;
        const Array bits(DType::i16, {65536}, [] {
            std::vector<double> numbers;
            for (int b = -32768; b < 32768; ++b) numbers.push_back(b);
            return numbers;
        }());
        ScoreRequest request;
        const Array one(dtype, {1, 1, 1}, {1});
        request.q.tokens = one.view();
        request.d.tokens = {bits.view().data, dtype, {65536, 1, 1}};
        for (const core::Kernel* row : rows_for(dtype)) {
            SCOPED_TRACE(row->name);
            const Results r = run(*row, core::make_problem(request), Want::scores);
            for (std::size_t i = 0; i < 65536; ++i) {
                const double want = core::read_element(static_cast<std::byte*>(bits.view().data) + 2 * i, dtype);
                ASSERT_TRUE(r.scores[i] == want || (std::isnan(want) && std::isnan(r.scores[i]))) << i;
            }
        }
        // In one row of many elements, where whole vectors are widened.
        const Array ones(dtype, {1, 31, 1}, {1});
        request.d.tokens = {bits.view().data, dtype, {512, 128}};
        const Array unit(dtype, {128, 128}, [] {
            std::vector<double> identity(128 * 128, 0);
            for (std::size_t k = 0; k < 128; ++k) identity[k * 129] = 1;
            return identity;
        }());
        request.q.tokens = unit.view();
        for (const core::Kernel* row : rows_for(dtype)) {
            SCOPED_TRACE(row->name);
            for (std::int64_t t = 0; t < 512; t += 37) {  // finite rows: 0 * inf would be NaN everywhere
                const std::byte* at = static_cast<std::byte*>(bits.view().data) + t * 256;
                bool finite = true;
                for (int k = 0; k < 128; ++k) finite = finite && std::isfinite(core::read_element(at + 2 * k, dtype));
                if (!finite) continue;
                request.d.tokens = {at, dtype, {1, 128}};
                const Results r = run(*row, core::make_problem(request));
                for (std::size_t k = 0; k < 128; ++k) EXPECT_EQ(r.similarity[k], core::read_element(at + 2 * k, dtype));
            }
        }
    }
}

}  // namespace
}  // namespace rowmax::test
