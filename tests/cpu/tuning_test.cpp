// Tile and block sizes for every instruction set, on any host.
#include "cpu/tuning.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {
namespace {

constexpr std::int64_t dims[] = {1, 3, 16, 48, 96, 128, 768, 1024, 4096};

TEST(Tuning, AccumulatorsFitTheRegisters) {
    for (const int registers : {16, 32}) {
        const int rows = tile_rows(registers);
        EXPECT_LE(2 * rows + 3, registers) << "two vectors of accumulators, two of queries, one of a document";
        EXPECT_LE(rows, row_padding);
        EXPECT_EQ(rows % tail_rows(rows), 0);
    }
    const int paired = paired_rows(32);
    EXPECT_LE(4 * paired + 3, 32) << "the sums of two chains";
    EXPECT_EQ(paired % tail_rows(paired), 0);
    EXPECT_EQ(paired_rows(16), 0);
    EXPECT_EQ(tile_rows(16), 6);
    EXPECT_EQ(tile_rows(32), 8);
}

TEST(Tuning, BlocksOfSimilaritiesAreWholeTilesEverywhere) {
    for (const int registers : {16, 32}) EXPECT_EQ(select_block_rows % tile_rows(registers), 0);
    EXPECT_LE(select_block_rows, most_block_rows);
    for (std::int64_t rows = 0; rows < 100; ++rows) EXPECT_EQ(split_queries(rows, 8, false).few, 0);
}

TEST(Tuning, SumsThatFitTheCacheAreAddedDirectly) {
    EXPECT_TRUE(scatter_directly(1000000, 1000, 64, 4));
    EXPECT_TRUE(scatter_directly(0, 10, 0, 4));
    EXPECT_FALSE(scatter_directly(1000000, 1000000, 64, 4));
    EXPECT_TRUE(scatter_directly(1000, 1000000, 64, 4)) << "a sort would look at every destination";
    EXPECT_TRUE(grid_is_slower(1000, 1000, 1));
    EXPECT_FALSE(grid_is_slower(1000000, 4, 1));
    EXPECT_FALSE(grid_is_slower(1000, 1000, 64));
    EXPECT_EQ(scatter_parts(4, 8), 1);
    EXPECT_EQ(scatter_parts(64, 8), 8);
}

TEST(Tuning, QueryRowsAreSplitWithoutLossAndWithOneStepAPanel) {
    for (const std::int64_t lanes : {2, 4, 8, 16}) {
        for (std::int64_t rows = 0; rows < 6 * lanes; ++rows) {
            const QuerySplit split = split_queries(rows, lanes);
            const std::int64_t panel_rows = (2 * split.wide + split.narrow) * lanes;
            EXPECT_LE(split.few, most_few_rows(lanes));
            EXPECT_LE(split.narrow, 1);
            EXPECT_GE(panel_rows + split.few, rows);
            EXPECT_TRUE(split.few == 0 || panel_rows + split.few == rows) << "few rows fill no lane with nothing";
            EXPECT_LT(panel_rows - rows, lanes) << "no panel is mostly padding";
        }
    }
    for (std::int64_t rows = 1; rows <= 32; ++rows) {
        std::int64_t turns = 0;
        for (std::int64_t left = rows; left > 0; left -= few_in_turn(left), ++turns) {
            EXPECT_LE(few_in_turn(left), few_at_once);
            EXPECT_GT(few_in_turn(left), 0);
        }
        EXPECT_EQ(turns, (rows + few_at_once - 1) / few_at_once);
    }
    EXPECT_EQ(split_queries(1, 16).few, 1);
    EXPECT_EQ(split_queries(33, 16).few, 1) << "32 tokens and one more";
    EXPECT_EQ(split_queries(32, 16).wide, 1);
}

TEST(Tuning, BlocksAreWholeTilesAndFitTheCaches) {
    for (const std::int64_t rows : {6, 8}) {
        for (const std::int64_t bytes : {4, 8}) {
            for (const std::int64_t dim : dims) {
                const std::int64_t block = block_rows(dim, bytes, rows);
                EXPECT_EQ(block % rows, 0);
                EXPECT_GE(block, rows);
                EXPECT_LE(block, most_block_rows);
                EXPECT_LE(block * dim * bytes, std::max<std::int64_t>(16 * 1024, rows * dim * bytes));
            }
        }
    }
}

TEST(Tuning, PackedQueriesFitL2AndBreakAtGroups) {
    for (const std::int64_t lanes : {4, 8, 16, 32}) {
        for (const std::int64_t dim : dims) {
            const std::int64_t rows = query_rows(dim, 4, lanes);
            EXPECT_EQ(rows % 16, 0) << "a slice of a query must not split a group of the score's sum";
            EXPECT_EQ(rows % lanes, 0);
            EXPECT_GE(rows, lanes);
            EXPECT_LE(rows * dim * 4, 512 * 1024 + lanes * dim * 4);
        }
    }
}

}  // namespace
}  // namespace rowmax::cpu
