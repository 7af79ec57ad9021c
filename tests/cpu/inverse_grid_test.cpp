// The public inverse grid.
#include <gtest/gtest.h>

#include <vector>

#include "rowmax/maxsim.hpp"
#include "support/array.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

struct Grid {
    std::vector<double> row_ptr;
    std::vector<double> source;
};

Grid grid_of(const TensorView& index, std::int64_t n, std::vector<std::int64_t> ptr_shape,
             std::vector<std::int64_t> source_shape, bool validate = true) {
    const Array row_ptr(DType::i64, std::move(ptr_shape), {-7});
    const Array source(DType::i64, std::move(source_shape), {-7});
    inverse_grid(index, n, row_ptr.view(), source.view(), validate);
    return {row_ptr.values(), source.values()};
}

TEST(InverseGrid, SourcesAscendAndTheTailIsMinusOne) {
    for (const DType dtype : {DType::i32, DType::i64}) {
        const Array index(dtype, {7}, {2, 0, -1, 2, 4, 0, 2});
        const Grid grid = grid_of(index.view(), 5, {6}, {7});
        EXPECT_EQ(grid.row_ptr, (std::vector<double>{0, 2, 2, 5, 5, 6}));
        EXPECT_EQ(grid.source, (std::vector<double>{1, 5, 0, 3, 6, 4, -1}));
    }
}

TEST(InverseGrid, BatchesAreIndependent) {
    const Array index(DType::i32, {2, 2, 2}, {0, 1, 1, 1, -1, -1, 1, 0});
    const Grid grid = grid_of(index.view(), 2, {2, 2, 3}, {2, 2, 2});
    EXPECT_EQ(grid.row_ptr, (std::vector<double>{0, 1, 2, 0, 0, 2, 0, 0, 0, 0, 1, 2}));
    EXPECT_EQ(grid.source, (std::vector<double>{0, 1, 0, 1, -1, -1, 1, 0}));
}

TEST(InverseGrid, ReadsStridedViews) {
    const Array storage(DType::i32, {3, 2}, {0, 9, 1, 9, 0, 9});
    TensorView column = storage.view();
    column.ndim = 1;
    column.shape = {3};
    column.stride = {2};
    EXPECT_EQ(grid_of(column, 2, {3}, {3}).source, (std::vector<double>{0, 2, 1}));
}

TEST(InverseGrid, NothingToInvert) {
    const Array none(DType::i32, {0});
    EXPECT_EQ(grid_of(none.view(), 2, {3}, {0}).row_ptr, (std::vector<double>{0, 0, 0}));
    const Array dropped(DType::i32, {2}, {-1});
    EXPECT_EQ(grid_of(dropped.view(), 0, {1}, {2}).source, (std::vector<double>{-1, -1}));
}

TEST(InverseGrid, ValuesOutOfRange) {
    const Array index(DType::i64, {3}, {0, 5, -2});
    EXPECT_ERROR(grid_of(index.view(), 2, {3}, {3}), invalid_value, "index", "5", "2");
    EXPECT_EQ(grid_of(index.view(), 2, {3}, {3}, false).source, (std::vector<double>{0, -1, -1}));
}

TEST(InverseGrid, NamesWhatIsWrong) {
    const Array index(DType::i32, {3}, {0});
    const Array floats(DType::f32, {3}, {0});
    EXPECT_ERROR(grid_of(floats.view(), 2, {3}, {3}), invalid_type, "index", "float32");
    EXPECT_ERROR(grid_of(index.view(), -1, {0}, {3}), invalid_value, "num_destinations", "-1");
    EXPECT_ERROR(grid_of(index.view(), 2, {2}, {3}), invalid_value, "row_ptr", "[3]", "[2]");
    EXPECT_ERROR(grid_of(index.view(), 2, {3}, {4}), invalid_value, "source", "[3]", "[4]");
}

}  // namespace
}  // namespace rowmax::test
