// TensorView and the names of types.
#include "rowmax/tensor.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "support/throws.hpp"

namespace rowmax {
namespace {

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

TEST(TensorViewTest, DefaultIsNotGiven) {
    const TensorView none;
    EXPECT_FALSE(none.given());
    EXPECT_EQ(none.numel(), 0);
    EXPECT_EQ(none.shape_text(), "none");
}

TEST(TensorViewTest, RowMajorStrides) {
    const TensorView view(nullptr, DType::f32, {2, 3, 4});
    EXPECT_EQ(view.stride[0], 12);
    EXPECT_EQ(view.stride[1], 4);
    EXPECT_EQ(view.stride[2], 1);
    EXPECT_EQ(view.numel(), 24);
    EXPECT_TRUE(view.contiguous());
    EXPECT_EQ(view.shape_text(), "[2, 3, 4]");
}

TEST(TensorViewTest, ScalarHasOneElement) {
    const TensorView scalar(nullptr, DType::f32, {});
    EXPECT_TRUE(scalar.given());
    EXPECT_EQ(scalar.numel(), 1);
    EXPECT_TRUE(scalar.contiguous());
    EXPECT_EQ(scalar.shape_text(), "[]");
}

TEST(TensorViewTest, ContiguousIgnoresStridesOfSizeOne) {
    TensorView view(nullptr, DType::f32, {2, 1, 4});
    view.stride[1] = -99;
    EXPECT_TRUE(view.contiguous());
    view.stride[0] = 5;
    EXPECT_FALSE(view.contiguous());
    view.shape[2] = 0;
    EXPECT_TRUE(view.contiguous());
}

TEST(TensorViewTest, AbsurdShapesSaturate) {
    const TensorView big(nullptr, DType::f32, {huge, huge});
    EXPECT_EQ(big.numel(), huge);
    const TensorView empty(nullptr, DType::f32, {huge, huge, 0});
    EXPECT_EQ(empty.numel(), 0);
}

TEST(TensorViewTest, RefusesFiveDimensions) {
    const std::vector<std::int64_t> five{1, 2, 3, 4, 5};
    EXPECT_ERROR(TensorView(nullptr, DType::f32, std::span(five), std::span(five)), invalid_value, "0 to 4 dimensions",
                 "[1, 2, 3, 4, 5]");
    EXPECT_ERROR(TensorView(nullptr, DType::f32, std::span(five)), invalid_value, "[1, 2, 3, 4, 5]");
    const std::vector<std::int64_t> two{1, 2};
    const std::vector<std::int64_t> three{1, 2, 3};
    EXPECT_ERROR(TensorView(nullptr, DType::f32, std::span(two), std::span(three)), invalid_value, "3 strides");
}

TEST(DTypeTest, NamesRoundTrip) {
    const std::vector<std::pair<DType, std::size_t>> sizes{
        {DType::f16, 2}, {DType::bf16, 2}, {DType::f32, 4}, {DType::f64, 8}, {DType::i8, 1},
        {DType::u8, 1},  {DType::i16, 2},  {DType::i32, 4}, {DType::i64, 8}, {DType::boolean, 1}};
    for (const auto& [dtype, size] : sizes) {
        EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
        EXPECT_EQ(size_of(dtype), size);
    }
    EXPECT_ERROR(dtype_from_name("float8"), invalid_type, "float8");
}

}  // namespace
}  // namespace rowmax
