// float8 (e4m3) codes with scales: their values, the quantiser, and scores against the oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/float8.hpp"
#include "cpu/guarded.hpp"
#include "cpu/sample.hpp"
#include "rowmax/compressed.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

const float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

TEST(Float8, ValuesByTheDefinition) {
    for (int bits = 0; bits < 256; ++bits) {
        const int exponent = bits >> 3 & 15;
        const int fraction = bits & 7;
        const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
        const float value = core::float8_value(static_cast<std::uint8_t>(bits));
        if (exponent == 15 && fraction == 7) {
            EXPECT_TRUE(std::isnan(value));
        } else {
            EXPECT_EQ(value, bits < 128 ? magnitude : -magnitude) << bits;
            EXPECT_EQ(core::float_to_float8(value), bits);
        }
    }
}

// Between neighbours: the nearer one, and of two equally near ones that with an even last bit.
TEST(Float8, RoundsToNearestEven) {
    for (int bits = 0; bits < 126; ++bits) {
        const float low = core::float8_value(static_cast<std::uint8_t>(bits));
        const float high = core::float8_value(static_cast<std::uint8_t>(bits + 1));
        const float middle = (low + high) / 2;
        EXPECT_EQ(core::float_to_float8(middle), bits + bits % 2);
        EXPECT_EQ(core::float_to_float8(std::nextafter(middle, 0.0F)), bits);
        EXPECT_EQ(core::float_to_float8(std::nextafter(middle, inf)), bits + 1);
        EXPECT_EQ(core::float_to_float8(-std::nextafter(middle, inf)), bits + 129);
    }
    EXPECT_EQ(core::float_to_float8(1e9F), 126);
    EXPECT_EQ(core::float_to_float8(-inf), 254);
    EXPECT_EQ(core::float_to_float8(nan) & 127, 127);
}

class Fp8Layouts : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Cpu, Fp8Layouts, ::testing::ValuesIn(all_layouts),
                         [](const auto& chosen) { return std::string(name_of_layout(chosen.param)); });

TEST_P(Fp8Layouts, SmallNumbersAreExact) {
    unsigned seed = 1;
    ASSERT_GE(rows_for(DType::f8e4m3).size(), 2U);
    for (const std::int64_t dim : {1, 15, 16, 17, 128, 768}) {
        for (const std::int64_t lq : {1, 9, 33}) {
            const Shape shape{GetParam(), DType::f8e4m3, 3, 4, lq, 50, dim, true, false, ++seed, lq == 9};
            SCOPED_TRACE(::testing::PrintToString(shape));
            const Sample sample(shape, small_integers(dim));
            const core::Problem problem = core::make_problem(sample.request);
            const core::reference::Scores truth = core::reference::score(problem.params);
            for (const core::Kernel* row : rows_for(DType::f8e4m3)) {
                SCOPED_TRACE(row->name);
                const Results got = run(*row, problem);
                EXPECT_EQ(got.scores.values(), truth.scores);
                EXPECT_EQ(got.similarity.values(), truth.similarity);
                EXPECT_EQ(got.index.values(), (std::vector<double>(truth.index.begin(), truth.index.end())));
            }
        }
    }
}

TEST_P(Fp8Layouts, AnyNumbersAreWithinTheBoundAndTheSameOnEveryRow) {
    const Sample sample({GetParam(), DType::f8e4m3, 3, 4, 20, 50, 128, true, false, 5}, normal());
    const core::Problem problem = core::make_problem(sample.request);
    const core::reference::Scores truth = core::reference::score(problem.params);
    const Results first = run(*rows_for(DType::f8e4m3).front(), problem);
    for (std::size_t p = 0; p < truth.scores.size(); ++p) {
        EXPECT_LE(std::fabs(first.scores[p] - truth.scores[p]), 1e-6 * truth.scale[p]);
    }
    for (const core::Kernel* row : rows_for(DType::f8e4m3)) {
        EXPECT_TRUE(same_bits(run(*row, problem, Want::all, 2).similarity, first.similarity)) << row->name;
    }
}

TEST(Fp8, NothingIsReadBehindTheEnd) {
    for (const std::int64_t dim : {1, 7, 33}) {
        const Sample sample({Layout::cross, DType::f8e4m3, 2, 2, 9, 21, dim, false, false, 3}, normal());
        ScoreRequest request = sample.request;
        const Guarded memory[] = {Guarded(bytes_of(request.q.tokens)), Guarded(bytes_of(request.d.tokens))};
        request.q.tokens = copy_to(memory[0].data(), request.q.tokens);
        request.d.tokens = copy_to(memory[1].data(), request.d.tokens);
        for (const core::Kernel* row : rows_for(DType::f8e4m3)) {
            EXPECT_TRUE(same_bits(run(*row, core::make_problem(request)).similarity,
                                  run(*row, core::make_problem(sample.request)).similarity));
        }
    }
}

// A code that is NaN and a scale that is: both are a NaN token.
TEST(Fp8, NanOfCodesAndScales) {
    const Array q(DType::f8e4m3, {2, 2}, {1, 1, 1, 0});
    const Array d(DType::f8e4m3, {3, 2}, {1, 1, 2, nan, 3, 3});
    const Array q_scale(DType::f32, {2}, {1, nan});
    const Array d_scale(DType::f32, {}, {2});
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    request.q.scale = q_scale.view();
    request.d.scale = d_scale.view();
    for (const core::Kernel* row : rows_for(DType::f8e4m3)) {
        const Results got = run(*row, core::make_problem(request));
        EXPECT_TRUE(std::isnan(got.scores[0]));
        EXPECT_EQ(got.index.values(), (std::vector<double>{1, 0}));
    }
}

TEST(QuantizeFp8, IsTheDivisionByTheScale) {
    std::mt19937 random(3);
    const Values draw = normal();
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
        const Array tokens = Array::generated(dtype, {4, 7, 48}, [&] { return draw(random); });
        const Array codes(DType::f8e4m3, {4, 7, 48}, {1});
        const Array scale(DType::f32, {4, 7});
        quantize_fp8(tokens.view(), false, codes.view(), scale.view());
        const Array whole(DType::f32, {});
        const Array whole_codes(DType::f8e4m3, {4, 7, 48}, {1});
        quantize_fp8(tokens.view(), true, whole_codes.view(), whole.view());
        double largest = 0;
        for (std::size_t row = 0; row < 28; ++row) {
            double most = 0;
            for (std::size_t k = 0; k < 48; ++k) most = std::fmax(most, std::fabs(tokens[row * 48 + k]));
            largest = std::fmax(largest, scale[row]);
            EXPECT_NEAR(scale[row], most / 448, 1e-7 * most);
            for (std::size_t k = 0; k < 48; ++k) {
                const double x = tokens[row * 48 + k];
                EXPECT_NEAR(codes[row * 48 + k] * scale[row], x, std::fmax(std::fabs(x) / 16, scale[row] / 512));
                EXPECT_NEAR(whole_codes[row * 48 + k] * whole[0], x,
                            std::fmax(std::fabs(x) / 16, whole[0] / 512) * 1.001);
            }
        }
        EXPECT_EQ(whole[0], largest);
    }
}

TEST(QuantizeFp8, ZerosNanAndInfinity) {
    const Array tokens(DType::f32, {3, 2}, {0, 0, 1, -2, 3, inf});
    const Array codes(DType::f8e4m3, {3, 2}, {1});
    const Array scale(DType::f32, {3});
    quantize_fp8(tokens.view(), false, codes.view(), scale.view());
    EXPECT_EQ(scale[0], 0);
    EXPECT_TRUE(std::isnan(scale[2]));
    EXPECT_EQ(codes.values(), (std::vector<double>{0, 0, 224, -448, 0, 0}));
    const Array whole(DType::f32, {});
    quantize_fp8(tokens.view(), true, codes.view(), whole.view());
    EXPECT_TRUE(std::isnan(whole[0]));
    EXPECT_EQ(codes.values(), (std::vector<double>(6, 0)));
}

TEST(Fp8, WhatDoesNotFitIsNamed) {
    const Sample sample({Layout::cross, DType::f8e4m3, 2, 2, 9, 21, 8, false, false, 3}, normal());
    ScoreRequest request = sample.request;
    request.q.scale = {};
    EXPECT_ERROR(result_shape(request), invalid_type, "float8_e4m3fn", "q_scale");
    const Array tokens(DType::f32, {3, 2});
    const Array codes(DType::i8, {3, 2});
    const Array scale(DType::f32, {3});
    EXPECT_ERROR(quantize_fp8(tokens.view(), false, codes.view(), scale.view()), invalid_type, "codes", "float8_e4m3fn",
                 "int8");
    const Array right(DType::f8e4m3, {3, 2});
    EXPECT_ERROR(quantize_fp8(tokens.view(), true, right.view(), scale.view()), invalid_value, "scale", "[]", "[3]");
}

}  // namespace
}  // namespace rowmax::test
