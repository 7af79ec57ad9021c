// Sign bits: counted on both sides, or read as +1 and -1 beside queries of numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "cpu/guarded.hpp"
#include "cpu/sign_sample.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

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
            for (const core::Kernel* row : rows_named(both ? ".bits" : ".residual")) {
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
