// int8 codes with scales: what calls refuse, memory at the ends of arrays, and the quantiser.
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

TEST(Int8, EveryRowIsThere) {
    std::size_t available = 0;
    for (const core::Kernel& row : core::cpu_kernels()) {
        available += row.name.ends_with(".i8") && row.missing_features().empty() ? 1 : 0;
    }
    EXPECT_EQ(rows_for(DType::i8).size(), available);
    EXPECT_GE(available, 2U);
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
