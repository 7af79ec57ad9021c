// Sign bits: counted on both sides, or read as +1 and -1 beside queries of numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "cpu/guarded.hpp"
#include "cpu/sample.hpp"
#include "rowmax/compressed.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

std::vector<const core::Kernel*> rows_ending(std::string_view end) {
    std::vector<const core::Kernel*> rows;
    for (const core::Kernel& row : core::cpu_kernels()) {
        if (row.name.ends_with(end) && row.missing_features().empty()) rows.push_back(&row);
    }
    return rows;
}

/// A request of some layout, with the sign bits of its documents, and of its queries too where asked for.
struct Signs {
    Signs(const Shape& shape, bool queries_too, bool big = false) : sample(shape, normal()), request(sample.request) {
        // Hidden tokens hold NaN, whose bits are 0: they would be noticed.
        d = bits_of(request.d.tokens, big);
        if (queries_too) q = bits_of(request.q.tokens, big);
        request.d.tokens = d->view();
        if (!queries_too) {
            request.d.residual = &tables;
            tables.bit_order = big ? BitOrder::colbert : BitOrder::little;
            return;
        }
        request.q.tokens = q->view();
        request.q.sign_bits = request.d.sign_bits = shape.dim;
    }

    static std::unique_ptr<Array> bits_of(const TensorView& tokens, bool big) {
        std::vector<std::int64_t> shape(tokens.shape.begin(), tokens.shape.begin() + tokens.ndim);
        shape.back() = (shape.back() + 7) / 8;
        auto bits = std::make_unique<Array>(DType::u8, shape);
        sign_bits(tokens, big, bits->view());
        return bits;
    }

    Sample sample;
    std::unique_ptr<Array> q;
    std::unique_ptr<Array> d;
    Array weights{DType::f32, {2}, {-1, 1}};
    ResidualTables tables{{}, weights.view(), 1, BitOrder::little, false};
    ScoreRequest request;
};

class SignLayouts : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Cpu, SignLayouts, ::testing::ValuesIn(all_layouts),
                         [](const auto& chosen) { return std::string(name_of_layout(chosen.param)); });

void expect_truth(const core::Kernel& row, const core::Problem& problem, double bound) {
    SCOPED_TRACE(row.name);
    const core::reference::Scores truth = core::reference::score(problem.params);
    const Results got = run(row, problem);
    if (bound == 0) {
        EXPECT_EQ(got.index.values(), (std::vector<double>(truth.index.begin(), truth.index.end())));
        EXPECT_EQ(got.similarity.values(), truth.similarity);
    }
    for (std::size_t p = 0; p < truth.scores.size(); ++p) {
        EXPECT_LE(std::fabs(got.scores[p] - truth.scores[p]), bound * truth.scale[p]);
    }
}

TEST_P(SignLayouts, BitsOnBothSides) {
    unsigned seed = 1;
    ASSERT_GE(rows_ending(".bits").size(), 2U);
    for (const std::int64_t dim : {1, 7, 8, 9, 31, 32, 33, 64, 100, 128, 1024, 4096}) {
        for (const std::int64_t lq : {1, 9, 33}) {
            if (dim > 128 && lq != 9) continue;
            const Shape shape{GetParam(), DType::f32, 3, 4, lq, dim > 128 ? 9 : 50, dim, true, false, ++seed};
            SCOPED_TRACE(::testing::PrintToString(shape));
            const Signs signs(shape, true);
            const core::Problem problem = core::make_problem(signs.request);
            for (const core::Kernel* row : rows_ending(".bits")) expect_truth(*row, problem, 0);
        }
    }
}

TEST_P(SignLayouts, NumbersBesideBits) {
    unsigned seed = 1;
    for (const std::int64_t dim : {1, 7, 8, 9, 33, 100, 128, 768}) {
        for (const bool big : {false, true}) {
            const Shape shape{GetParam(), DType::f32, 3, 4, 19, 50, dim, true, false, ++seed};
            SCOPED_TRACE(::testing::PrintToString(shape));
            const Signs signs(shape, false, big);
            const core::Problem problem = core::make_problem(signs.request);
            for (const core::Kernel* row : rows_ending(".residual")) expect_truth(*row, problem, 2e-7);
        }
    }
}

TEST(SignBits, AreThoseAboveZero) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
        const Array tokens(dtype, {1, 10}, {1, -1, 0, -0.0, nan, 0.5, 2, -3, 4, -5});
        const Array bits(DType::u8, {1, 2}, {255});
        sign_bits(tokens.view(), false, bits.view());
        EXPECT_EQ(bits.values(), (std::vector<double>{0b01100001, 1})) << name_of(dtype);
        sign_bits(tokens.view(), true, bits.view());
        EXPECT_EQ(bits.values(), (std::vector<double>{0b10000110, 128})) << name_of(dtype);
    }
    const Array tokens(DType::f32, {2, 10});
    const Array bits(DType::u8, {2, 1});
    EXPECT_ERROR(sign_bits(tokens.view(), false, bits.view()), invalid_value, "out", "[2, 2]", "[2, 1]");
}

TEST(SignBits, NothingIsReadBehindTheEnd) {
    for (const std::int64_t dim : {1, 9, 33, 96}) {
        for (const bool both : {false, true}) {
            const Signs signs({Layout::cross, DType::f32, 2, 3, 9, 21, dim, false, false, 3}, both);
            ScoreRequest request = signs.request;
            const Guarded memory[] = {Guarded(bytes_of(request.q.tokens)), Guarded(bytes_of(request.d.tokens))};
            request.q.tokens = copy_to(memory[0].data(), request.q.tokens);
            request.d.tokens = copy_to(memory[1].data(), request.d.tokens);
            for (const core::Kernel* row : rows_ending(both ? ".bits" : ".residual")) {
                EXPECT_TRUE(same_bits(run(*row, core::make_problem(request)).similarity,
                                      run(*row, core::make_problem(signs.request)).similarity));
            }
        }
    }
}

TEST(SignBits, WhatDoesNotFitIsNamed) {
    const Signs signs({Layout::cross, DType::f32, 2, 3, 4, 5, 20, false, false, 3}, true);
    ScoreRequest request = signs.request;
    request.q.sign_bits = 19;
    EXPECT_ERROR(result_shape(request), invalid_value, "19", "20");
    request.q.sign_bits = request.d.sign_bits = 25;
    EXPECT_ERROR(result_shape(request), invalid_value, "Q [2, 4, 3]", "25", "4 bytes");
    request = signs.request;
    request.options.normalize = true;
    EXPECT_ERROR(result_shape(request), invalid_value, "normalize");
    request = signs.request;
    request.q.sign_bits = request.d.sign_bits = 0;
    EXPECT_ERROR(result_shape(request), invalid_type, "Q", "uint8");
    const Array floats(DType::f32, {2, 4, 3});
    request.q.tokens = request.d.tokens = floats.view();
    request.q.sign_bits = request.d.sign_bits = 20;
    EXPECT_ERROR(result_shape(request), invalid_type, "uint8", "float32");
}

}  // namespace
}  // namespace rowmax::test
