// The tile kernel: R document rows against a panel of V vectors of query lanes, and the fold into running maxima.
//
//      panel [dim][lanes] (packed queries, L1 or L2)          best [lanes]
//      k ->  | q0 | q1 |                                        ^  max over the R rows of the tile
//              v    v                                            |
//   row 0  d ->  s00  s01      s[r][v] += broadcast(row r, k) * q[v]: R x V accumulators, in registers
//   row 1  d ->  s10  s11
//   ...                        document rows are read where they lie, one scalar at a time
//
// Order of additions, the same for every instruction set: chains of `run` fused multiply-adds, each starting from zero;
// the sums of the chains are added as a binary tree. After chain c the sum is added to the waiting left neighbours of
// the same size (one for every trailing 1 bit of c), then waits itself, in `waiting[level]` (stack, L1). A plain chain
// over all of dim loses bits when the products have one sign: with numbers in [0, 1) and d = 128 its error reaches 5e-7
// of |q||d|; chains of 8 stay below 1.6e-7 on every data tried, constant rows included.
//
// Included by files under inst/ only; everything here is private to them.
#pragma once

#include "cpu/kernels/tile_ops.hpp"
#include "cpu/prim/unroll.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {
namespace {

/// The accumulators of one tile, and the rows they belong to.
template <class Vec, int Vectors, int Rows>
struct Tile {
    static constexpr int lanes = Vectors * Vec::lanes;
    typename Vec::Reg sum[Rows][Vectors];
    const std::byte* row[Rows];

    /// Calls f(row, vector) with constants.
    template <class F>
    static ROWMAX_INLINE void each(F f) {
        unroll<0, Rows>([&](auto r) { unroll<0, Vectors>([&](auto v) { f(r, v); }); });
    }
};

/// Chain sums that wait for their right neighbour, one set per level of the tree.
template <class Vec, int Vectors, int Rows>
struct Waiting {
    static constexpr int levels = 16;  // 2^16 chains
    alignas(64) typename Vec::Value at[levels][Rows][Vectors][Vec::lanes];
};

/// One step along the dimension: every row times every query lane.
template <class Vec, int V, int R>
ROWMAX_INLINE void multiply(Tile<Vec, V, R>& tile, const typename Vec::Value* panel, std::int64_t k) {
    typename Vec::Reg q[V];
    unroll<0, V>([&](auto v) { q[v] = Vec::load(panel + k * tile.lanes + v * Vec::lanes); });
    unroll<0, R>([&](auto r) {
        const auto d = Vec::broadcast(tile.row[r] + k * static_cast<std::int64_t>(sizeof(typename Vec::Value)));
        unroll<0, V>([&](auto v) { tile.sum[r][v] = Vec::fma(d, q[v], tile.sum[r][v]); });
    });
}

/// Asks for some of the rows of the next block: the part that stands for this chain, spread over its steps.
template <int R>
ROWMAX_INLINE void fetch(const std::byte* const* ahead, std::int64_t part, std::int64_t parts, std::int64_t offset) {
    for (std::int64_t r = part * R / parts; r < (part + 1) * R / parts; ++r) __builtin_prefetch(ahead[r] + offset);
}

/// Products k0 .. k1 of the dimension, as one chain for every accumulator.
template <class Vec, int V, int R>
ROWMAX_INLINE void run_chain(Tile<Vec, V, R>& tile, const typename Vec::Value* panel, std::int64_t k0, std::int64_t k1,
                             const std::byte* const* ahead, std::int64_t offset) {
    constexpr int stride = Vec::unrolled;
    tile.each([&](auto r, auto v) { tile.sum[r][v] = Vec::zero(); });
    std::int64_t k = k0;
    for (; k + stride <= k1; k += stride) {
        if (ahead != nullptr) fetch<R>(ahead, (k - k0) / stride, (k1 - k0 + stride - 1) / stride, offset);
        unroll<0, stride>([&](auto i) { multiply(tile, panel, k + i); });
    }
    for (; k < k1; ++k) multiply(tile, panel, k);
}

/// Joins the sums of chain number `chain` with the tree.
template <class Vec, int V, int R>
ROWMAX_INLINE void join_tree(Tile<Vec, V, R>& tile, Waiting<Vec, V, R>& waiting, std::int64_t chain, bool last) {
    int level = 0;
    for (; (chain >> level) != 0; ++level) {
        const bool present = ((chain >> level) & 1) != 0;
        if (!present && !last) break;
        if (!present) continue;
        tile.each(
            [&](auto r, auto v) { tile.sum[r][v] = Vec::add(Vec::load(waiting.at[level][r][v]), tile.sum[r][v]); });
    }
    if (!last) tile.each([&](auto r, auto v) { Vec::store(waiting.at[level][r][v], tile.sum[r][v]); });
}

template <class Vec, int V, int R>
ROWMAX_INLINE bool all_ordered(const Tile<Vec, V, R>& tile) {
    auto mask = Vec::ordered(tile.sum[0][0], tile.sum[R - 1][V - 1]);
    unroll<0, R / 2>([&](auto r) {
        unroll<0, V>([&](auto v) { mask = Vec::both(mask, Vec::ordered(tile.sum[2 * r][v], tile.sum[2 * r + 1][v])); });
    });
    if constexpr (R % 2 != 0) {
        unroll<0, V>([&](auto v) { mask = Vec::both(mask, Vec::ordered(tile.sum[R - 1][v], tile.sum[R - 1][v])); });
    }
    return Vec::all(mask);
}

/// best = max(best, sums), the earlier row among equals; with the token that gave it when index is not null.
template <class Vec, int V, int R>
ROWMAX_INLINE void fold_ordered(const Tile<Vec, V, R>& tile, const std::int32_t* tokens, typename Vec::Value* best,
                                typename Vec::IndexValue* index) {
    unroll<0, V>([&](auto v) {
        auto m = Vec::load(best + v * Vec::lanes);
        if (index != nullptr) {
            auto at = Vec::load_index(index + v * Vec::lanes);
            unroll<0, R>([&](auto r) {
                at = Vec::select_index(Vec::greater(tile.sum[r][v], m), Vec::broadcast_index(tokens[r]), at);
                m = Vec::max(tile.sum[r][v], m);
            });
            Vec::store_index(index + v * Vec::lanes, at);
        } else {
            unroll<0, R>([&](auto r) { m = Vec::max(tile.sum[r][v], m); });
        }
        Vec::store(best + v * Vec::lanes, m);
    });
}

/// The same where a NaN is among the sums: the first NaN wins and stays.
template <class Vec, int V, int R>
ROWMAX_INLINE void fold_any(const Tile<Vec, V, R>& tile, const std::int32_t* tokens, typename Vec::Value* best,
                            typename Vec::IndexValue* index) {
    unroll<0, V>([&](auto v) {
        auto m = Vec::load(best + v * Vec::lanes);
        unroll<0, R>([&](auto r) {
            const auto wins = Vec::both(Vec::not_less_equal(tile.sum[r][v], m), Vec::ordered(m, m));
            m = Vec::select(wins, tile.sum[r][v], m);
            if (index != nullptr) {
                auto* at = index + v * Vec::lanes;
                Vec::store_index(at, Vec::select_index(wins, Vec::broadcast_index(tokens[r]), Vec::load_index(at)));
            }
        });
        Vec::store(best + v * Vec::lanes, m);
    });
}

template <class Vec, int V, int R>
inline void fold_tile(const FoldArgs<typename Vec::Value>& args, std::int64_t panel_number, std::int64_t first) {
    using TileOf = Tile<Vec, V, R>;
    const auto* panel = args.panels + panel_number * args.dim * TileOf::lanes;
    const std::byte* const* ahead = args.ahead != nullptr && panel_number == 0 ? args.ahead + first : nullptr;
    TileOf tile;
    Waiting<Vec, V, R> waiting;
    unroll<0, R>([&](auto r) { tile.row[r] = args.rows[first + r]; });
    bool last = false;
    for (std::int64_t chain = 0; !last; ++chain) {
        const std::int64_t k = chain * args.run;
        last = k + args.run >= args.dim;
        run_chain(tile, panel, k, last ? args.dim : k + args.run, ahead, chain * args.ahead_step);
        join_tree(tile, waiting, chain, last);
    }
    if (args.scales != nullptr) {
        unroll<0, R>([&](auto r) {
            const auto scale = Vec::broadcast(args.scales[first + r]);
            unroll<0, V>([&](auto v) { tile.sum[r][v] = Vec::mul(tile.sum[r][v], scale); });
        });
    }
    auto* best = args.best + panel_number * TileOf::lanes;
    auto* index = args.index == nullptr ? nullptr : args.index + panel_number * TileOf::lanes;
    if (all_ordered(tile)) {
        fold_ordered(tile, args.tokens + first, best, index);
    } else {
        fold_any(tile, args.tokens + first, best, index);
    }
}

/// Every panel against every row: tiles of full height, then lower ones for what is left.
template <class Vec, int V>
inline void fold(const FoldArgs<typename Vec::Value>& args) {
    constexpr int rows = tile_rows(Vec::registers);
    constexpr int low = tail_rows(rows);
    for (std::int64_t panel = 0; panel < args.panel_count; ++panel) {
        std::int64_t first = 0;
        for (; first + rows <= args.row_count; first += rows) fold_tile<Vec, V, rows>(args, panel, first);
        for (; first < args.row_count; first += low) fold_tile<Vec, V, low>(args, panel, first);
    }
}

}  // namespace
}  // namespace rowmax::cpu
