// Rows times a matrix: the tile kernel (tile.hpp, where its picture is) with its sums stored instead of folded into
// maxima.
//
//      panel [dim][lanes]: columns of the matrix, side by side        to [row][column]
//      k ->  | c0 | c1 |                                               ^  sums of R rows, and the bias
//              v    v                                                   |
//   row 0  k ->  s00  s01     products and additions, and their order, are those of the fold
//   row 1  k ->  s10  s11
//
// Included by files under inst/ only; everything here is private to them.
#pragma once

#include "cpu/kernels/tile.hpp"

namespace rowmax::cpu {
namespace {

template <bool Paired, class Vec, int R>
inline void project_tile(const ProjectArgs<typename Vec::Value>& args, std::int64_t panel_number, std::int64_t first) {
    using TileOf = Tile<Vec, 2, R>;
    const std::int64_t column = panel_number * TileOf::lanes;
    TileOf tile;
    unroll<0, R>([&](auto r) ROWMAX_FLATTEN { tile.row[r] = args.product.rows[first + r]; });
    const std::byte* nothing_ahead = nullptr;
    multiply_rows<Paired>(tile, args.product, args.product.panels + column * args.product.dim, nothing_ahead);
    if (args.bias != nullptr) {
        unroll<0, 2>([&](auto v) ROWMAX_FLATTEN {
            const auto b = Vec::load(args.bias + column + v * Vec::lanes);
            unroll<0, R>([&](auto r) ROWMAX_FLATTEN { tile.sum[r][v] = Vec::add(tile.sum[r][v], b); });
        });
    }
    auto* to = args.to + first * args.stride + column;
    tile.each([&](auto r, auto v)
                  ROWMAX_FLATTEN { Vec::store(to + r * args.stride + v * Vec::lanes, tile.sum[r][v]); });
}

/// Every panel against every row: tiles of full height, then lower ones for what is left.
template <bool Paired, class Vec>
inline void project_rows(const ProjectArgs<typename Vec::Value>& args) {
    constexpr int rows = Paired ? paired_rows(Vec::registers) : tile_rows(Vec::registers);
    constexpr int low = tail_rows(rows);
    const std::int64_t count = args.product.row_count;
    for (std::int64_t panel = 0; panel < args.product.panel_count; ++panel) {
        std::int64_t first = 0;
        for (; first + rows <= count; first += rows) project_tile<Paired, Vec, rows>(args, panel, first);
        for (; first < count; first += low) project_tile<Paired, Vec, low>(args, panel, first);
    }
}

template <class Vec>
inline void project(const ProjectArgs<typename Vec::Value>& args) {
    constexpr bool short_chains = sizeof(typename Vec::Value) == sizeof(float);
    // Plain C++ gains nothing by it, and would compile three times as long.
    if constexpr (short_chains && Vec::unrolled > 1 && paired_rows(Vec::registers) > 0) {
        if (run_in_pairs(args.product.run)) return project_rows<true, Vec>(args);
    }
    project_rows<false, Vec>(args);
}

template <class F32, class F64>
constexpr ProjectOps project_ops() {
    return {&project<F32>, &project<F64>, 2 * F32::lanes, 2 * F64::lanes};
}

}  // namespace
}  // namespace rowmax::cpu
