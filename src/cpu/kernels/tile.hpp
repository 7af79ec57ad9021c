// The tile kernel: R document rows against a panel of V vectors of query lanes, and the fold into running maxima.
//
//      panel [dim][lanes] (packed queries, L1 or L2)          best [lanes]
//      k ->  | q0 | q1 |                                        ^  max over the R rows of the tile
//              v    v                                            |
//   row 0  d ->  s00  s01      s[r][v] += broadcast(row r, k) * q[v]: R x V accumulators, in registers
//   row 1  d ->  s10  s11
//   ...                        document rows are read where they lie, one scalar at a time
//
// Order of additions, the same for every instruction set: chains of `run` products, each a multiplication and then
// fused multiply-adds; the sums of the chains are added as a binary tree. After chain c the sum is added to the waiting
// left neighbours of the same size (one for every trailing 1 bit of c), then waits itself in `waiting[level]` (stack,
// L1).
//
// Why: the error of a plain chain grows with its length when the products have one sign. Largest error in 100 000 pairs
// of rows, in units of |q||d| (2e-7 is what docs/numerics.md promises):
//
//     products of one chain                    8        16        32        128
//     uniform in [0, 1), d = 128         1.3e-7    1.4e-7    1.8e-7    5.3e-7
//     uniform in [0, 1), d = 4096        1.1e-7    1.1e-7    1.2e-7        -
//     both rows constant, any d          1.5e-7    2.7e-7    5.1e-7    1.9e-6
//
// float32 tokens take 8: with 16, a pair of rows each of which repeats one number can miss the bound by a third.
//
// Included by files under inst/ only; everything here is private to them.
#pragma once

#include "cpu/kernels/rows_meanwhile.hpp"
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
        unroll<0, Rows>([&](auto r) ROWMAX_FLATTEN { unroll<0, Vectors>([&](auto v) ROWMAX_FLATTEN { f(r, v); }); });
    }
};

/// Chain sums that wait for their right neighbour, one set per level of the tree.
template <class Vec, int Vectors, int Rows>
struct Waiting {
    static constexpr int levels = 16;  // 2^16 chains
    alignas(64) typename Vec::Value at[levels][Rows][Vectors][Vec::lanes];
};

/// One step along the dimension: every row times every query lane. The first step of a chain starts the sums.
template <bool First, class Vec, int V, int R>
ROWMAX_INLINE void multiply(Tile<Vec, V, R>& tile, const typename Vec::Value* panel, std::int64_t k) {
    typename Vec::Reg q[V];
    unroll<0, V>([&](auto v) ROWMAX_FLATTEN { q[v] = Vec::load(panel + v * Vec::lanes); });
    unroll<0, R>([&](auto r) ROWMAX_FLATTEN {
        const auto d = Vec::broadcast(tile.row[r] + k * static_cast<std::int64_t>(sizeof(typename Vec::Value)));
        unroll<0, V>([&](auto v) ROWMAX_FLATTEN {
            tile.sum[r][v] = First ? Vec::mul(d, q[v]) : Vec::fma(d, q[v], tile.sum[r][v]);
        });
    });
}

/// Asks for the next `lines` cache lines of memory that will be read soon; they wait in L2.
ROWMAX_INLINE const std::byte* fetch(const std::byte* ahead, std::int64_t lines) {
    constexpr std::int64_t line = 64;
    for (; lines > 0; lines -= 4, ahead += 4 * line) {
        unroll<0, 4>([&](auto i) ROWMAX_FLATTEN { __builtin_prefetch(ahead + i * line, 0, 2); });
    }
    return ahead;
}

/// Widens some of the next block's rows. Between two chains: no sum is in a register that a call would have to save.
ROWMAX_INLINE void widen_meanwhile(RowsMeanwhile* rows) {
    if (rows != nullptr) widen_until(*rows, rows->done + rows->at_once);
}

/// `Steps` steps from k on.
template <int Steps, bool First, class Vec, int V, int R>
ROWMAX_INLINE void multiply_steps(Tile<Vec, V, R>& tile, const typename Vec::Value*& panel, std::int64_t& k) {
    unroll<0, Steps>([&](auto i) ROWMAX_FLATTEN { multiply<First && i == 0>(tile, panel + i * tile.lanes, k + i); });
    panel += Steps * tile.lanes;
    k = opaque(k + Steps);
}

/// `length` products from k on, as one chain for every accumulator.
template <class Vec, int V, int R>
ROWMAX_INLINE void run_chain(Tile<Vec, V, R>& tile, const typename Vec::Value*& panel, std::int64_t& k,
                             std::int64_t length) {
    constexpr int steps = Vec::unrolled;
    if (length >= steps) {
        multiply_steps<steps, true>(tile, panel, k);
        for (length -= steps; length >= steps; length -= steps) multiply_steps<steps, false>(tile, panel, k);
    } else {
        multiply_steps<1, true>(tile, panel, k);
        --length;
    }
    for (; length > 0; --length) multiply_steps<1, false>(tile, panel, k);
}

/// Adds what waits at `level`, to the left of the tile's sums.
template <class Vec, int V, int R>
ROWMAX_INLINE void add_waiting(Tile<Vec, V, R>& tile, const Waiting<Vec, V, R>& waiting, int level) {
    tile.each([&](auto r, auto v)
                  ROWMAX_FLATTEN { tile.sum[r][v] = Vec::add(Vec::load(waiting.at[level][r][v]), tile.sum[r][v]); });
}

template <class Vec, int V, int R>
ROWMAX_INLINE void wait_at(const Tile<Vec, V, R>& tile, Waiting<Vec, V, R>& waiting, int level) {
    tile.each([&](auto r, auto v) ROWMAX_FLATTEN { Vec::store(waiting.at[level][r][v], tile.sum[r][v]); });
}

/// Joins the sums of chain number `chain`, already joined below `level`, with the tree.
template <class Vec, int V, int R>
ROWMAX_INLINE void join_tree(Tile<Vec, V, R>& tile, Waiting<Vec, V, R>& waiting, std::int64_t chain, bool last,
                             int level = 0) {
    for (; ((chain >> level) & 1) != 0; ++level) add_waiting(tile, waiting, level);
    if (!last) return wait_at(tile, waiting, level);
    for (; (chain >> level) != 0; ++level) {
        if (((chain >> level) & 1) != 0) add_waiting(tile, waiting, level);
    }
}

template <class Vec, int V, int R>
ROWMAX_INLINE bool all_ordered(const Tile<Vec, V, R>& tile) {
    auto mask = Vec::ordered(tile.sum[0][0], tile.sum[R - 1][V - 1]);
    unroll<0, R / 2>([&](auto r) ROWMAX_FLATTEN {
        unroll<0, V>([&](auto v) ROWMAX_FLATTEN {
            mask = Vec::both(mask, Vec::ordered(tile.sum[2 * r][v], tile.sum[2 * r + 1][v]));
        });
    });
    if constexpr (R % 2 != 0) {
        unroll<0, V>([&](auto v) ROWMAX_FLATTEN {
            mask = Vec::both(mask, Vec::ordered(tile.sum[R - 1][v], tile.sum[R - 1][v]));
        });
    }
    return Vec::all(mask);
}

/// best = max(best, sums), the earlier row among equals; with the token that gave it when index is not null. token(r)
/// gives the tokens of the lanes of row r.
template <class Vec, int V, int R, class TokenOf>
ROWMAX_INLINE void fold_ordered(const Tile<Vec, V, R>& tile, TokenOf token, typename Vec::Value* best,
                                typename Vec::IndexValue* index) {
    unroll<0, V>([&](auto v) ROWMAX_FLATTEN {
        auto m = Vec::load(best + v * Vec::lanes);
        if (index != nullptr) {
            auto at = Vec::load_index(index + v * Vec::lanes);
            unroll<0, R>([&](auto r) ROWMAX_FLATTEN {
                at = Vec::select_index(Vec::greater(tile.sum[r][v], m), token(r), at);
                m = Vec::max(tile.sum[r][v], m);
            });
            Vec::store_index(index + v * Vec::lanes, at);
        } else {
            unroll<0, R>([&](auto r) ROWMAX_FLATTEN { m = Vec::max(tile.sum[r][v], m); });
        }
        Vec::store(best + v * Vec::lanes, m);
    });
}

/// The same where a NaN is among the sums: the first NaN wins and stays.
template <class Vec, int V, int R, class TokenOf>
ROWMAX_INLINE void fold_any(const Tile<Vec, V, R>& tile, TokenOf token, typename Vec::Value* best,
                            typename Vec::IndexValue* index) {
    unroll<0, V>([&](auto v) ROWMAX_FLATTEN {
        auto m = Vec::load(best + v * Vec::lanes);
        unroll<0, R>([&](auto r) ROWMAX_FLATTEN {
            const auto wins = Vec::both(Vec::not_less_equal(tile.sum[r][v], m), Vec::ordered(m, m));
            m = Vec::select(wins, tile.sum[r][v], m);
            if (index != nullptr) {
                auto* at = index + v * Vec::lanes;
                Vec::store_index(at, Vec::select_index(wins, token(r), Vec::load_index(at)));
            }
        });
        Vec::store(best + v * Vec::lanes, m);
    });
}

template <class Vec, int V, int R, class TokenOf>
ROWMAX_INLINE void fold_maxima(const Tile<Vec, V, R>& tile, TokenOf token, typename Vec::Value* best,
                               typename Vec::IndexValue* index) {
    if (all_ordered(tile)) {
        fold_ordered(tile, token, best, index);
    } else {
        fold_any(tile, token, best, index);
    }
}

/// Integer sums as floats, with what every lane's sum starts from.
template <class Vec, int V, int R, class BaseOf>
ROWMAX_INLINE void convert_sums(Tile<Vec, V, R>& tile, BaseOf base) {
    unroll<0, V>([&](auto v) ROWMAX_FLATTEN {
        const auto b = base(v);
        unroll<0, R>([&](auto r) ROWMAX_FLATTEN { tile.sum[r][v] = Vec::to_float(tile.sum[r][v], b); });
    });
}

/// Sums, floats by now, times the factors of their rows.
template <class Vec>
ROWMAX_INLINE typename Vec::Reg scaled(typename Vec::Reg sum, typename Vec::Reg factor) {
    if constexpr (Vec::more_rows > 0) {
        return Vec::Floats::mul(sum, factor);
    } else {
        return Vec::mul(sum, factor);
    }
}

/// The next chain, added to the sum of the one before: both stay in registers.
template <class Vec, int V, int R>
ROWMAX_INLINE void add_next_chain(Tile<Vec, V, R>& tile, const typename Vec::Value*& panel, std::int64_t& k,
                                  std::int64_t length) {
    Tile<Vec, V, R> right;
    unroll<0, R>([&](auto r) ROWMAX_FLATTEN { right.row[r] = tile.row[r]; });
    run_chain(right, panel, k, length);
    tile.each([&](auto r, auto v) ROWMAX_FLATTEN { tile.sum[r][v] = Vec::add(tile.sum[r][v], right.sum[r][v]); });
}

/// All products of the tile, chain by chain, or with `Paired` two by two.
template <bool Paired, class Vec, int V, int R>
ROWMAX_INLINE void multiply_rows(Tile<Vec, V, R>& tile, const FoldArgs<typename Vec::Value>& args,
                                 const typename Vec::Value* panel, const std::byte*& ahead) {
    Waiting<Vec, V, R> waiting;
    std::int64_t k = 0;
    std::int64_t left = args.dim;
    std::int64_t chain = 0;
    do {
        if (ahead != nullptr) ahead = fetch(ahead, args.ahead_lines);
        if constexpr (!Paired) widen_meanwhile(args.meanwhile);
        run_chain(tile, panel, k, left < args.run ? left : args.run);
        left -= args.run;
        int level = 0;
        if constexpr (Paired) {
            if (left > 0) {
                if (ahead != nullptr) ahead = fetch(ahead, args.ahead_lines);
                add_next_chain(tile, panel, k, left < args.run ? left : args.run);
                left -= args.run;
                ++chain;
                level = 1;
            }
        }
        join_tree(tile, waiting, chain++, left <= 0, level);
    } while (left > 0);
}

template <bool Paired, class Vec, int V, int R>
inline void fold_tile(const FoldArgs<typename Vec::Value>& args, std::int64_t panel_number, std::int64_t first,
                      const std::byte*& ahead) {
    using TileOf = Tile<Vec, V, R>;
    const auto* panel = args.panels + panel_number * (args.dim + Vec::more_rows) * TileOf::lanes;
    TileOf tile;
    unroll<0, R>([&](auto r) ROWMAX_FLATTEN { tile.row[r] = args.rows[first + r]; });
    multiply_rows<Paired>(tile, args, panel, ahead);
    if constexpr (Vec::more_rows > 0) {
        const auto* bases = panel + args.dim * TileOf::lanes;
        convert_sums(tile, [=](int v) ROWMAX_FLATTEN { return Vec::load(bases + v * Vec::lanes); });
    }
    if (args.scales != nullptr) {
        unroll<0, R>([&](auto r) ROWMAX_FLATTEN {
            const auto scale = Vec::broadcast(args.scales[first + r]);
            unroll<0, V>([&](auto v) ROWMAX_FLATTEN { tile.sum[r][v] = scaled<Vec>(tile.sum[r][v], scale); });
        });
    }
    const std::int32_t* tokens = args.tokens + first;
    fold_maxima(
        tile, [=](int r) ROWMAX_FLATTEN { return Vec::broadcast_index(tokens[r]); },
        args.best + panel_number * TileOf::lanes,
        args.index == nullptr ? nullptr : args.index + panel_number * TileOf::lanes);
}

/// Every panel against every row: tiles of full height, then lower ones for what is left.
template <class Vec, int V, bool Paired = false>
inline void fold(const FoldArgs<typename Vec::Value>& args) {
    constexpr int rows = Paired ? paired_rows(Vec::registers) : tile_rows(Vec::registers);
    constexpr int low = tail_rows(rows);
    const std::byte* ahead = args.ahead;
    for (std::int64_t panel = 0; panel < args.panel_count; ++panel) {
        std::int64_t first = 0;
        for (; first + rows <= args.row_count; first += rows)
            fold_tile<Paired, Vec, V, rows>(args, panel, first, ahead);
        for (; first < args.row_count; first += low) fold_tile<Paired, Vec, V, low>(args, panel, first, ahead);
        ahead = nullptr;
    }
}

}  // namespace
}  // namespace rowmax::cpu
