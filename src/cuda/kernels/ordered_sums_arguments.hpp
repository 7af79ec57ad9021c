// Sums whose terms are added in a fixed order: what the host plans.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rowmax::cuda {

/// Terms of a sum that are added one after the other; then the sums of such runs are, in order.
inline constexpr std::int64_t terms_per_run = 256;
inline constexpr int ordered_sum_threads = 256;

/// Part of a sum that has more than one run.
struct SharedRun {
    std::int64_t row_after;  ///< one more than the row; 0: an entry that nobody filled in
    std::int64_t begin;
    std::int64_t end;
};
struct SharedRow {
    std::int64_t row;
    std::int64_t first;  ///< of its runs
    std::int64_t runs;
};

/// Rows with several runs: put on a list by whoever meets them, so that all warps take part in each. Where a row's runs
/// stand in the list changes no bit.
struct SharedRows {
    unsigned long long* counts = nullptr;  ///< runs and rows so far; zeros at first
    SharedRun* runs = nullptr;             ///< behind the counts, and zeros too
    SharedRow* rows = nullptr;
    void* parts = nullptr;  ///< [capacity][channels]: sums of the runs
    std::int64_t capacity = 0;
};

struct OrderedSums {
    std::int64_t rows = 0;
    std::int64_t channels = 0;
    int lane_bits = 0;  ///< 2^lane_bits neighbouring threads share a row's channels
    SharedRows shared;
};

/// The kernels of ordered_sums.cuh for one kind of terms, in their order.
struct OrderedSumKernels {
    const void* rows = nullptr;
    const void* runs = nullptr;
    const void* join = nullptr;
};

/// Runs of all rows that have several, for `terms` in all: a row with t of them has fewer than t / 128.
constexpr std::int64_t shared_runs_most(std::int64_t terms) {
    return 2 * (terms / terms_per_run) + 1;
}

}  // namespace rowmax::cuda
