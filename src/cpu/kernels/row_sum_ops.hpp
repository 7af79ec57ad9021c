// Sums of rows of numbers: what one instruction set offers, filled in by one file under inst/. Plain data only, as in
// tile_ops.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rowmax::cpu {

/// Rows of `channels` numbers, side by side; row s starts `stride` bytes after row s - 1.
struct SourceRows {
    const std::byte* data = nullptr;
    std::int64_t stride = 0;
    std::int64_t channels = 0;
};

template <class Sum>
struct RowSums {
    /// sum = the rows sources[0], .. sources[count - 1], added in order from zero.
    void (*sum_run)(const SourceRows& rows, const std::int64_t* sources, std::int64_t count, Sum* sum) = nullptr;
    /// sum += one row
    void (*add_row)(const std::byte* row, std::int64_t channels, Sum* sum) = nullptr;
};

struct RowSumOps {
    RowSums<float> f16;
    RowSums<float> bf16;
    RowSums<float> f32;
    RowSums<double> f64;
};

}  // namespace rowmax::cpu
