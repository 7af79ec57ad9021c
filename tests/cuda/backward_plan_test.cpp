// How the backward pass is shared out: every row belongs to one warp, and what is counted and staged fits.
#include "cuda/kernels/backward_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace rowmax::cuda {
namespace {

constexpr int processors = 132;

TEST(BackwardPlan, BlocksOfSourcesFitSixteenBits) {
    for (const std::int64_t documents : {1, 32, 128, 4096, 1000000}) {
        for (const std::int64_t sources : {1, 32, 1024, 8192, 131072, 10000000}) {
            const int shift = block_shift(documents, sources, processors);
            EXPECT_GE(shift, block_shift_least);
            EXPECT_LE(shift, block_shift_most);
        }
    }
    EXPECT_EQ(block_shift(128, 131072, processors), block_shift_most);  // large batches: the fewest blocks
    EXPECT_LT(block_shift(32, 1024, processors), block_shift_most);     // small ones: enough to share out
}

TEST(BackwardPlan, CountsAndStagedSourcesFitSharedMemory) {
    for (const std::int64_t longest : {1, 2, 180, 1030, 2048, 2049, 100000}) {
        for (const std::int64_t sources : {1, 31, 1024, 32768, 131072}) {
            InverseGrid grid;
            grid.sources = sources;
            grid.shift = block_shift(16, sources, processors);
            grid.blocks = static_cast<int>(ceil_div(sources, std::int64_t{1} << grid.shift));
            const InvertPlan plan = invert_plan(16, longest, grid, processors);
            EXPECT_GE(plan.warps, 1);
            EXPECT_LE(plan.warps, invert_warps_most);
            EXPECT_EQ(plan.window % 2, 0);
            EXPECT_LE(plan.shared_bytes(), invert_shared_most) << longest << " " << sources;
            EXPECT_GE(plan.staged, std::min<std::int64_t>(sources, std::int64_t{1} << grid.shift));
            EXPECT_LE((plan.slices - 1) * std::int64_t{plan.window}, longest);
        }
    }
}

// One document of a length that most have takes one window: its sources are read once.
TEST(BackwardPlan, PagesTakeOneWindow) {
    InverseGrid grid;
    grid.sources = 131072;
    grid.shift = block_shift_most;
    grid.blocks = 4;
    for (const std::int64_t longest : {180, 1024, 1030, 2048}) {
        EXPECT_GE(invert_plan(128, longest, grid, processors).window, longest);
    }
}

TEST(BackwardPlan, ThreadBlocksHoldAsManyRowsAsTheyCan) {
    for (const std::int64_t rows : {1, 7, 32, 1000, 9600, 131072, 4218880}) {
        for (const std::int64_t sources_of_row : {0, 3, 100, 10000}) {
            for (const bool normalize : {false, true}) {
                const RowPlan plan = row_plan(rows, rows * sources_of_row, normalize, row_sum_warps, processors);
                EXPECT_GE(plan.rows_per_block, 1);
                EXPECT_LE(plan.rows_per_block, 32 * row_sum_warps);
                EXPECT_EQ(plan.alone % sources_per_run, 0);
                EXPECT_GE(plan.alone, sources_per_run);
            }
        }
    }
    // Few rows get a thread block each; rows that hardly anything adds to, as many as it has threads.
    EXPECT_EQ(row_plan(32, 320000, false, row_sum_warps, processors).rows_per_block, 1);
    EXPECT_EQ(row_plan(4218880, 131072, false, row_sum_warps, processors).rows_per_block, 256);
}

TEST(BackwardPlan, LongRowsFitSharedMemory) {
    for (const std::int64_t dim : {1, 128, 2048, 2049, 4096}) {
        for (const bool normalize : {false, true}) EXPECT_LE(row_sum_shared_bytes(dim, normalize), row_sum_shared_most);
    }
}

}  // namespace
}  // namespace rowmax::cuda
