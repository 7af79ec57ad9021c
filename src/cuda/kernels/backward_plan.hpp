// How the backward pass is shared out: plain arithmetic, for the host.
#pragma once

#include <cstdint>

#include "cuda/kernels/backward_arguments.hpp"

namespace rowmax::cuda {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

/// Thread blocks that a multiprocessor works on at once, about.
inline constexpr int row_sum_blocks_each = 4;

/// How rows are shared out.
struct RowPlan {
    int rows_per_block = 1;
    int alone = sources_per_run;
};

/// Rows with `sources` in all. Consecutive rows of a thread block share the work of finding them; fewer of them keep
/// the last thread blocks from working alone, which matters where each row takes long. Where rows do not occupy the
/// device, blocks get few, so that warps share what has several runs.
constexpr RowPlan row_plan(std::int64_t rows, std::int64_t sources, bool normalize, int warps, int processors) {
    constexpr std::int64_t sources_of_block = 1536;
    const std::int64_t blocks = std::int64_t{processors} * (row_sum_blocks_each - 1);
    const std::int64_t of_row = sources / rows;
    const std::int64_t by_work = of_row == 0 ? sources_of_block : ceil_div(sources_of_block, of_row);
    const std::int64_t by_rows = ceil_div(rows, blocks);
    RowPlan plan;
    plan.rows_per_block = static_cast<int>(by_work < by_rows ? by_work : by_rows);
    if (plan.rows_per_block > 32 * warps) plan.rows_per_block = 32 * warps;
    if (!normalize || rows < blocks * warps) return plan;
    const std::int64_t runs = of_row / sources_per_run + 1;  // what most rows have at most
    plan.alone = static_cast<int>(runs < warps ? runs : warps) * sources_per_run;
    return plan;
}

/// Warps of a thread block that adds up rows: with normalize each holds a row in shared memory.
constexpr int warps_of_row_sums(std::int64_t dim, bool normalize) {
    return normalize && dim > 2048 ? row_sum_warps / 2 : row_sum_warps;
}
constexpr int row_sum_shared_bytes(std::int64_t dim, bool normalize) {
    const int warps = warps_of_row_sums(dim, normalize);
    return static_cast<int>(warps * (slice_elements + (normalize ? dim : 0)) * std::int64_t{sizeof(float)});
}
inline constexpr int row_sum_shared_most = 72 * 1024;

/// Blocks of a document's sources: several where documents alone do not occupy the device.
constexpr int block_shift(std::int64_t documents, std::int64_t sources, int processors) {
    const std::int64_t most = ceil_div(documents * sources, std::int64_t{3} * processors);
    int shift = block_shift_least;
    while (shift < block_shift_most && (std::int64_t{1} << shift) < most) ++shift;
    return shift;
}

/// Sizes of the thread blocks that invert an index.
struct InvertPlan {
    int warps = 1;
    int window = 2;
    int staged = 0;  ///< sources of a block
    int slices = 1;
    [[nodiscard]] constexpr int shared_bytes() const { return 2 * (warps * window + staged); }
};
inline constexpr int invert_warps_most = 16;
inline constexpr int invert_window_most = 2048;
inline constexpr int invert_counts_most = 16384;  ///< of all warps
inline constexpr int invert_shared_most = 2 * (invert_counts_most + (1 << block_shift_most));

constexpr InvertPlan invert_plan(std::int64_t documents, std::int64_t longest, const InverseGrid& grid,
                                 int processors) {
    constexpr std::int64_t sources_per_warp = 128;
    const auto least = [](std::int64_t a, std::int64_t b) { return static_cast<int>(a < b ? a : b); };
    InvertPlan plan;
    plan.staged = least(ceil_div(grid.sources, 2) * 2, std::int64_t{1} << grid.shift);
    plan.window = least(ceil_div(longest, 2) * 2, invert_window_most);
    plan.window = plan.window < 2 ? 2 : plan.window;
    plan.warps =
        least(ceil_div(plan.staged, sources_per_warp), least(invert_warps_most, invert_counts_most / plan.window));
    const std::int64_t windows = ceil_div(longest, plan.window);
    const std::int64_t wanted = ceil_div(std::int64_t{4} * processors, documents * grid.blocks);
    const int slices = least(windows, wanted);
    plan.slices = slices < 1 ? 1 : slices;
    return plan;
}

}  // namespace rowmax::cuda
