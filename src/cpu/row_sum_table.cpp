#include "cpu/kernels/row_sum_table.hpp"

#include <algorithm>
#include <cstdlib>

#include "cpu/prim/features.hpp"

namespace rowmax::cpu {

extern const RowSumOps scalar_sum_ops;
#if defined(__x86_64__)
extern const RowSumOps avx2_sum_ops;
extern const RowSumOps avx512_sum_ops;
#endif

namespace {

std::string runs_anywhere() {
    return {};
}

constexpr RowSumRow sum_rows[] = {
#if defined(__x86_64__)
    {"cpu.avx512", &missing_avx512, &avx512_sum_ops},
    {"cpu.avx2", &missing_avx2, &avx2_sum_ops},
#endif
    {"cpu.scalar", &runs_anywhere, &scalar_sum_ops},
};

}  // namespace

std::span<const RowSumRow> row_sum_rows() {
    return sum_rows;
}

const RowSumOps& row_sum_ops() {
    const char* set = std::getenv("ROWMAX_KERNEL");
    const std::string_view forced = set == nullptr ? "" : set;
    const auto usable = [](const RowSumRow& row) { return row.missing_features().empty(); };
    const auto named = [&](const RowSumRow& row) { return !forced.empty() && forced.starts_with(row.name); };
    for (const RowSumRow& row : sum_rows) {
        if (named(row) && usable(row)) return *row.ops;
    }
    return *std::ranges::find_if(sum_rows, usable)->ops;
}

}  // namespace rowmax::cpu
