// The sums of rows that this machine's instructions give.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cpu/kernels/row_sum_ops.hpp"

namespace rowmax::cpu {

struct RowSumRow {
    std::string_view name;  ///< "cpu.avx2", as the rows of the table of kernels begin
    std::string (*missing_features)();
    const RowSumOps* ops;
};

/// In order of preference; all give the same bits.
std::span<const RowSumRow> row_sum_rows();

/// The first that this machine can run, or that ROWMAX_KERNEL names where it names one of them.
const RowSumOps& row_sum_ops();

}  // namespace rowmax::cpu
