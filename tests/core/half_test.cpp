// 16-bit floats against the definition of their bits, in double arithmetic: every value, and every rounding border.
#include "core/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace rowmax::core {
namespace {

struct Format {
    int exponent_bits;
    int fraction_bits;
    float (*widen)(std::uint16_t);
    std::uint16_t (*narrow)(float);

    [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
    [[nodiscard]] int exponent(std::uint16_t bits) const {
        return (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    }
    [[nodiscard]] int fraction(std::uint16_t bits) const { return bits & ((1 << fraction_bits) - 1); }
    [[nodiscard]] bool is_special(std::uint16_t bits) const { return exponent(bits) == (1 << exponent_bits) - 1; }
    [[nodiscard]] bool is_nan(std::uint16_t bits) const { return is_special(bits) && fraction(bits) != 0; }

    // The number that the bits of a finite value stand for, by the rule of IEEE 754.
    [[nodiscard]] double value(std::uint16_t bits) const {
        const bool subnormal = exponent(bits) == 0;
        const int mantissa = fraction(bits) + (subnormal ? 0 : 1 << fraction_bits);
        const double magnitude = std::ldexp(mantissa, (subnormal ? 1 : exponent(bits)) - bias() - fraction_bits);
        return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
    }

    // Nearest even: round the multiple of the last place, as double's own rounding does.
    [[nodiscard]] double rounded(double x) const {
        int exponent_of_x = 0;
        std::frexp(x, &exponent_of_x);
        const int place = std::max(exponent_of_x - 1, 1 - bias()) - fraction_bits;
        const double nearest = std::ldexp(std::nearbyint(std::ldexp(x, -place)), place);
        const double largest = std::ldexp(2 - std::ldexp(1, -fraction_bits), bias());
        return std::fabs(nearest) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : nearest;
    }
};

class HalfTest : public ::testing::TestWithParam<Format> {
  protected:
    void expect_rounds(float x) const {
        const std::uint16_t bits = GetParam().narrow(x);
        const double want = GetParam().rounded(x);
        ASSERT_EQ(static_cast<double>(GetParam().widen(bits)), want) << "narrowing " << x;
        ASSERT_EQ((bits & 0x8000U) != 0, std::signbit(x)) << "sign of " << x;
    }
};

TEST_P(HalfTest, WidensEveryValueExactly) {
    const Format& format = GetParam();
    for (std::uint32_t i = 0; i < 65536; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        const float wide = format.widen(bits);
        ASSERT_EQ(std::isnan(wide), format.is_nan(bits)) << i;
        ASSERT_EQ(std::signbit(wide), (i & 0x8000U) != 0) << i;
        if (format.is_special(bits)) {
            ASSERT_EQ(std::isinf(wide), !format.is_nan(bits)) << i;
        } else {
            ASSERT_EQ(static_cast<double>(wide), format.value(bits)) << i;
        }
    }
}

TEST_P(HalfTest, NarrowingUndoesWidening) {
    for (std::uint32_t i = 0; i < 65536; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        const std::uint16_t back = GetParam().narrow(GetParam().widen(bits));
        if (GetParam().is_nan(bits)) {
            ASSERT_TRUE(GetParam().is_nan(back)) << i;
        } else {
            ASSERT_EQ(back, bits);
        }
    }
}

// Between each two neighbours: the middle, and the floats beside it.
TEST_P(HalfTest, RoundsToNearestEvenAtEveryBorder) {
    for (std::uint32_t i = 0; i < 65535; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        const auto next = static_cast<std::uint16_t>(i + 1);
        if (GetParam().is_special(bits) || GetParam().is_special(next)) continue;
        const auto middle = static_cast<float>((GetParam().value(bits) + GetParam().value(next)) / 2);
        expect_rounds(middle);
        expect_rounds(std::nextafter(middle, 0.0F));
        expect_rounds(std::nextafter(middle, 2 * middle));
    }
}

TEST_P(HalfTest, RoundsRandomFloats) {
    std::mt19937 random(1);
    for (int i = 0; i < 1'000'000; ++i) {
        const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
        if (std::isfinite(x)) expect_rounds(x);
    }
}

TEST_P(HalfTest, OverflowsToInfinityAndKeepsNaN) {
    const Format& format = GetParam();
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float largest = std::numeric_limits<float>::max();
    EXPECT_EQ(format.widen(format.narrow(infinity)), infinity);
    EXPECT_EQ(format.widen(format.narrow(-largest)), -infinity);
    // A payload in the low bits only must not become infinity.
    EXPECT_TRUE(std::isnan(format.widen(format.narrow(std::bit_cast<float>(0x7f800001U)))));
    EXPECT_TRUE(std::isnan(format.widen(format.narrow(std::bit_cast<float>(0xffffffffU)))));
}

INSTANTIATE_TEST_SUITE_P(Formats, HalfTest,
                         ::testing::Values(Format{5, 10, half_to_float, float_to_half},
                                           Format{8, 7, bfloat_to_float, float_to_bfloat}),
                         [](const auto& test) { return test.param.exponent_bits == 5 ? "Float16" : "BFloat16"; });

}  // namespace
}  // namespace rowmax::core
