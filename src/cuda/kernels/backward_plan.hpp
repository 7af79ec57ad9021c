// How the backward pass is shared out: plain arithmetic, for the host.
#pragma once

#include <cstdint>

#include "cuda/kernels/backward_arguments.hpp"

namespace rowmax::cuda {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

/// Thread blocks that a multiprocessor works on at once, about.
inline constexpr int row_sum_blocks_each = 3;

/// Consecutive rows of one warp. More rows share the work of finding them; fewer keep the last thread blocks from
/// working alone.
constexpr int rows_per_warp(std::int64_t rows, int processors) {
    constexpr std::int64_t waves = 8;
    const std::int64_t warps = waves * processors * row_sum_blocks_each * row_sum_warps;
    int each = 1;
    while (each < 32 && rows >= 2 * each * warps) each *= 2;
    return each;
}

/// Sources of a row that one warp adds up: few where rows alone do not occupy the device.
constexpr int sources_alone(std::int64_t rows, int processors) {
    const std::int64_t warps = std::int64_t{processors} * row_sum_blocks_each * row_sum_warps;
    int runs = row_sum_warps;
    while (runs > 1 && rows < warps) {
        runs /= 2;
        rows *= 2;
    }
    return runs * sources_per_run;
}

/// Warps of a thread block that adds up rows: with normalize each holds a row in shared memory.
constexpr int warps_of_row_sums(std::int64_t dim, bool normalize) {
    return normalize && dim > 2048 ? row_sum_warps / 2 : row_sum_warps;
}
constexpr int row_sum_shared_bytes(std::int64_t dim, bool normalize) {
    const int warps = warps_of_row_sums(dim, normalize);
    return static_cast<int>((warps * slice_elements + dim * (normalize ? warps : 1)) * std::int64_t{sizeof(float)});
}
inline constexpr int row_sum_shared_most = 72 * 1024;

/// Sizes of the thread blocks that invert an index.
struct InvertPlan {
    int warps = 1;
    int window = 2;
    int slices = 1;
    [[nodiscard]] constexpr int shared_bytes() const { return warps * window * 2; }
};
inline constexpr int invert_warps_most = 16;
inline constexpr int invert_window_most = 2048;

constexpr InvertPlan invert_plan(std::int64_t documents, std::int64_t longest, const InverseGrid& grid,
                                 int processors) {
    constexpr std::int64_t sources_per_warp = 256;
    InvertPlan plan;
    const std::int64_t sources = grid.sources < sources_per_block ? grid.sources : sources_per_block;
    while (plan.warps < invert_warps_most && plan.warps * sources_per_warp < sources) plan.warps *= 2;
    while (plan.window < invert_window_most && plan.window < longest) plan.window *= 2;
    const std::int64_t windows = ceil_div(longest, plan.window);
    const std::int64_t wanted = ceil_div(std::int64_t{4} * processors, documents * grid.blocks);
    const std::int64_t slices = windows < wanted ? windows : wanted;
    plan.slices = static_cast<int>(slices < 1 ? 1 : slices);
    return plan;
}

}  // namespace rowmax::cuda
