// int8 codes with scales: exact products, the contract of scales, and the quantiser.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "cpu/guarded.hpp"
#include "cpu/sample.hpp"
#include "rowmax/compressed.hpp"
#include "support/throws.hpp"

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
        for (std::size_t p = 0; p < truth.scores.size(); ++p) {
            EXPECT_EQ(results.scores[p], static_cast<float>(truth.scores[p]));
        }
    }
}

TEST(Int8, EveryRowIsThere) {
    std::size_t available = 0;
    for (const core::Kernel& row : core::cpu_kernels()) {
        available += row.name.ends_with(".i8") && row.missing_features().empty() ? 1 : 0;
    }
    EXPECT_EQ(rows_for(DType::i8).size(), available);
    EXPECT_GE(available, 2U);
}

class Int8Layouts : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Cpu, Int8Layouts, ::testing::ValuesIn(all_layouts),
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

TEST(Int8, NothingIsReadBehindTheLastRowNorAScaleThatNobodyHas) {
    for (const std::int64_t dim : {1, 3, 7, 17, 31, 128}) {
        for (const std::int64_t lq : {3, 20}) {
            const Sample sample({Layout::cross, DType::i8, 2, 2, lq, 21, dim, false, false, 3}, any_codes());
            ScoreRequest request = sample.request;
            const Guarded memory[] = {Guarded(bytes_of(request.q.tokens)), Guarded(bytes_of(request.d.tokens)),
                                      Guarded(bytes_of(request.q.scale)), Guarded(bytes_of(request.d.scale))};
            request.q.tokens = copy_to(memory[0].data(), request.q.tokens);
            request.d.tokens = copy_to(memory[1].data(), request.d.tokens);
            request.q.scale = copy_to(memory[2].data(), request.q.scale);
            request.d.scale = copy_to(memory[3].data(), request.d.scale);
            for (const core::Kernel* row : rows_for(DType::i8)) {
                EXPECT_TRUE(same_bits(run(*row, core::make_problem(request)).similarity,
                                      run(*row, core::make_problem(sample.request)).similarity));
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

TEST(Int8, TopKOfChunks) {
    const Sample sample({Layout::cross, DType::i8, 2, 30, 9, 11, 40, true, false, 7}, any_codes());
    ScoreRequest request = sample.request;
    const Array scores(DType::f32, {2, 5});
    const Array index(DType::i64, {2, 5});
    const Array chunked(DType::f32, {2, 5});
    const Array chunked_index(DType::i64, {2, 5});
    topk(request.q, request.d, 5, 0, request.options, scores.view(), index.view());
    topk(request.q, request.d, 5, 7, request.options, chunked.view(), chunked_index.view());
    EXPECT_EQ(scores.values(), chunked.values());
    EXPECT_EQ(index.values(), chunked_index.values());
}

TEST(Int8, WhatDoesNotFitIsNamed) {
    const Sample sample({Layout::cross, DType::i8, 2, 3, 4, 5, 8, false, false, 3}, any_codes());
    const auto refused = [&](ErrorCode code, std::initializer_list<std::string_view> texts, auto change) {
        ScoreRequest request = sample.request;
        change(request);
        EXPECT_TRUE(throws_error([&] { result_shape(request); }, code, texts));
    };
    const Array wrong(DType::f32, {2, 5});
    const Array wide(DType::f64, {2, 4});
    const Array floats(DType::f32, {3, 5, 8});
    refused(ErrorCode::invalid_type, {"q_scale", "int8", "missing"}, [](ScoreRequest& r) { r.q.scale = {}; });
    refused(ErrorCode::invalid_value, {"q_scale", "[2, 5]", "[2, 4]", "[2]", "Q [2, 4, 8]"},
            [&](ScoreRequest& r) { r.q.scale = wrong.view(); });
    refused(ErrorCode::invalid_type, {"q_scale", "float32", "float64"},
            [&](ScoreRequest& r) { r.q.scale = wide.view(); });
    refused(ErrorCode::invalid_type, {"int8", "float32"}, [&](ScoreRequest& r) { r.d.tokens = floats.view(); });
    refused(ErrorCode::invalid_value, {"normalize", "int8"}, [](ScoreRequest& r) { r.options.normalize = true; });
    ScoreRequest plain;
    plain.q.tokens = plain.d.tokens = floats.view();
    plain.d.scale = wrong.view();
    EXPECT_ERROR(result_shape(plain), invalid_type, "d_scale", "int8", "float32");
}

TEST(Int8, OutputsThatAreInputsAreRefused) {
    const Sample sample({Layout::cross, DType::i8, 2, 2, 2, 2, 8, false, false, 3}, any_codes());
    EXPECT_ERROR(score(sample.request, {TensorView(sample.request.d.scale.data, DType::f32, {2, 2}), {}, {}}),
                 invalid_value, "out", "d_scale");
}

TEST(Int8, ThereIsNoGradient) {
    const Sample sample({Layout::cross, DType::i8, 1, 1, 2, 2, 8, false, false, 3}, any_codes());
    const Array index(DType::i32, {1, 1, 2});
    const Array grad(DType::f32, {1, 1});
    EXPECT_ERROR(score_backward(sample.request, index.view(), grad.view(), {}, {}), not_implemented, "a backward pass");
}

struct Quantised {
    Quantised(const Array& tokens, Granularity granularity, std::vector<std::int64_t> scale_shape)
        : codes(DType::i8, shape_of(tokens), {99}), scale(DType::f32, std::move(scale_shape), {-1}) {
        quantize_int8(tokens.view(), granularity, codes.view(), scale.view());
    }
    static std::vector<std::int64_t> shape_of(const Array& tokens) {
        const TensorView view = tokens.view();
        return {view.shape.begin(), view.shape.begin() + view.ndim};
    }
    Array codes;
    Array scale;
};

TEST(QuantizeInt8, RoundsToNearestEvenWithin127) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
        const Array tokens(dtype, {1, 8}, {127, 0.5, 1.5, 2.5, -0.5, -1.5, -126.5, -127});
        const Quantised q(tokens, Granularity::token, {1});
        EXPECT_EQ(q.scale.values(), (std::vector<double>{1})) << name_of(dtype);
        if (dtype == DType::bf16) continue;  // has no 126.5
        EXPECT_EQ(q.codes.values(), (std::vector<double>{127, 0, 2, 2, 0, -2, -126, -127})) << name_of(dtype);
    }
}

TEST(QuantizeInt8, IsTheDivisionByTheFloat32Scale) {
    std::mt19937 random(3);
    const Values draw = normal();
    const Array tokens = Array::generated(DType::f32, {4, 33, 48}, [&] { return draw(random); });
    const Quantised q(tokens, Granularity::token, {4, 33});
    for (std::size_t row = 0; row < 4 * 33; ++row) {
        float most = 0;
        for (std::size_t k = 0; k < 48; ++k)
            most = std::fmax(most, std::fabs(static_cast<float>(tokens[row * 48 + k])));
        const float scale = most / 127;
        EXPECT_EQ(q.scale[row], scale);
        for (std::size_t k = 0; k < 48; ++k) {
            EXPECT_EQ(q.codes[row * 48 + k], std::nearbyint(static_cast<float>(tokens[row * 48 + k]) / scale));
        }
    }
    const Quantised whole(tokens, Granularity::document, {4});
    for (std::size_t i = 0; i < 4; ++i) {
        double most = 0;
        for (std::size_t row = 0; row < 33; ++row) most = std::fmax(most, q.scale[i * 33 + row]);
        EXPECT_EQ(whole.scale[i], most);
    }
}

TEST(QuantizeInt8, ZerosNanAndInfinity) {
    const Array tokens(DType::f32, {3, 2, 2}, {0, -0.0, 1, 2, nan, 1, 3, inf, 5, 5, -inf, 0});
    const Quantised q(tokens, Granularity::token, {3, 2});
    EXPECT_EQ(q.scale[0], 0);
    EXPECT_GT(q.scale[1], 0);
    for (const std::size_t i : {2, 3, 5}) EXPECT_TRUE(std::isnan(q.scale[i]));
    EXPECT_EQ(q.codes.values(), (std::vector<double>{0, 0, 64, 127, 0, 0, 0, 0, 127, 127, 0, 0}));
    const Quantised whole(tokens, Granularity::document, {3});
    EXPECT_FALSE(std::isnan(whole.scale[0]));
    EXPECT_TRUE(std::isnan(whole.scale[1]) && std::isnan(whole.scale[2]));
}

TEST(QuantizeInt8, ExtremeMagnitudes) {
    const Array tokens(DType::f32, {3, 2}, {3e38, -3e38, 1e-38, 5e-39, 1e-45, 0});
    const Quantised q(tokens, Granularity::token, {3});
    EXPECT_EQ(q.codes[0], 127);
    EXPECT_EQ(q.codes[1], -127);
    EXPECT_EQ(q.codes[2], 127);
    EXPECT_EQ(q.scale[2], std::numeric_limits<float>::denorm_min()) << "0 is for zeros alone";
    EXPECT_EQ(q.codes[4], 1);
    const Array wide(DType::f64, {1, 2}, {1e300, 1});
    EXPECT_TRUE(std::isnan(Quantised(wide, Granularity::token, {1}).scale[0])) << "no float32 scale holds it";
}

TEST(QuantizeInt8, StridedViewsAndEmptyOnes) {
    const Array tokens(DType::f32, {2, 3, 4}, {1, 2, 3, 4, 5, 6, 7});
    TensorView view = tokens.view();
    view.shape = {2, 4, 3, 0};
    view.stride = {12, 1, 4, 0};  // transposed: the last dimension is not contiguous
    const Array codes(DType::i8, {2, 4, 3});
    const Array scale(DType::f32, {2, 4});
    quantize_int8(view, Granularity::token, codes.view(), scale.view());
    EXPECT_EQ(scale[1], static_cast<float>(6.0F / 127));  // tokens 2, 6, 3
    EXPECT_EQ(codes[4], 127);
    const Array empty(DType::f32, {2, 0, 4});
    EXPECT_EQ(Quantised(empty, Granularity::document, {2}).scale.values(), (std::vector<double>{0, 0}));
}

TEST(QuantizeInt8, WhatDoesNotFitIsNamed) {
    const Array tokens(DType::f32, {2, 3, 4});
    const Array codes(DType::i8, {2, 3, 4});
    const Array scale(DType::f32, {2, 3});
    EXPECT_ERROR(quantize_int8(codes.view(), Granularity::token, codes.view(), scale.view()), invalid_type, "X",
                 "int8");
    EXPECT_ERROR(quantize_int8(scale.view(), Granularity::token, codes.view(), scale.view()), invalid_value, "codes",
                 "[2, 3]", "[2, 3, 4]");
    EXPECT_ERROR(quantize_int8(tokens.view(), Granularity::document, codes.view(), scale.view()), invalid_value,
                 "scale", "[2]", "[2, 3]");
    EXPECT_ERROR(quantize_int8(tokens.view(), Granularity::token, codes.view(), scale.view(), -1), invalid_value,
                 "threads", "-1");
    const Array row(DType::f32, {4});
    EXPECT_ERROR(quantize_int8(row.view(), Granularity::token, codes.view(), scale.view()), invalid_value, "X", "[4]");
}

}  // namespace
}  // namespace rowmax::test
