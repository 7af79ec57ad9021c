// 16-bit rows of the block that comes next, which are widened while this one is multiplied: a few at the start of each
// chain, by units that multiplications leave idle, and what is left at the block's end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/prim/unroll.hpp"

namespace rowmax::cpu {

struct RowsMeanwhile {
    void (*widen)(const std::byte* row, float* to, std::int64_t dim) = nullptr;
    const std::byte* const* rows = nullptr;
    float* to = nullptr;  ///< [count][dim]
    std::int64_t dim = 0;
    std::int64_t count = 0;
    std::int64_t at_once = 0;
    std::int64_t done = 0;
};

namespace {

/// Widens rows until `end` of them are done, or all.
ROWMAX_INLINE void widen_until(RowsMeanwhile& rows, std::int64_t end) {
    if (end > rows.count) end = rows.count;
    for (; rows.done < end; ++rows.done) {
        rows.widen(rows.rows[rows.done], rows.to + rows.done * rows.dim, rows.dim);
    }
}

}  // namespace
}  // namespace rowmax::cpu
