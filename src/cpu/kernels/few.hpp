// The kernel for few query tokens: one vector of document tokens against Q query rows.
//
//   document rows, where they lie                   columns: element k of every token of the group
//   token 0 |k k+1 k+2 k+3 ...                      k    | 0 1 2 3 | 4 5 6 7 | ..   lanes are tokens
//   token 1 |k k+1 k+2 k+3 ...      transposed      k+1  | 0 1 2 3 | 4 5 6 7 | ..
//   ...                             16 bytes of     k+2  | 0 1 2 3 | 4 5 6 7 | ..
//   token L |k k+1 k+2 k+3 ...      each at a time  k+3  | 0 1 2 3 | 4 5 6 7 | ..
//
//   s[q] += column k * broadcast(query q, element k)                  spread [Q][lanes]: maxima, lane by lane
//
// The tile kernel pays for whole vectors of query tokens; this one pays for the transposition and then for each query
// token alone. Products are added in the tile kernel's order, so which of them runs changes no bit.
//
// Included by files under inst/ only; everything here is private to them.
#pragma once

#include "cpu/kernels/rows.hpp"
#include "cpu/kernels/tile.hpp"

namespace rowmax::cpu {
namespace {

/// Elements of one row that are moved together: 16 bytes.
template <class Vec>
inline constexpr int chunk = 16 / int{sizeof(typename Vec::Value)};

// Sources: how elements lie in the document rows. A source gives chunks of Values out of several rows, and single ones.

/// Values as they are.
template <class VecType>
struct PlainRows {
    using Vec = VecType;
    using Stored = typename Vec::Value;
    static constexpr bool short_chains = run_length(sizeof(Stored)) == 8;  ///< or long ones, of widened rows
    template <class At>
    static ROWMAX_INLINE typename Vec::Reg load_chunks(At at) {
        return Vec::load_chunks(at);
    }
    static Stored value(Stored x) { return x; }
};

/// 16-bit elements, widened on their way into the registers.
template <class VecType, class Half>
struct F16Rows {
    using Vec = VecType;
    using Stored = std::uint16_t;
    static constexpr bool short_chains = false;
    template <class At>
    static ROWMAX_INLINE typename Vec::Reg load_chunks(At at) {
        return Half::template load_chunks_f16<Vec>(at, &half_value);
    }
    static float value(std::uint16_t x) { return half_value(x); }
};
template <class VecType, class Half>
struct Bf16Rows {
    using Vec = VecType;
    using Stored = std::uint16_t;
    static constexpr bool short_chains = false;
    template <class At>
    static ROWMAX_INLINE typename Vec::Reg load_chunks(At at) {
        return Half::template load_chunks_bf16<Vec>(at, &bfloat_value);
    }
    static float value(std::uint16_t x) { return bfloat_value(x); }
};

/// Words of codes.
template <class VecType>
struct WordRows : PlainRows<VecType> {
    static constexpr bool short_chains = false;
};

/// Elements k .. k + chunk - 1 of a vector of rows: column[i] holds element k + i of each.
template <class Source, class Vec = typename Source::Vec>
ROWMAX_INLINE void load_columns(const std::byte* const* rows, std::int64_t k, typename Vec::Reg (&column)[chunk<Vec>]) {
    const std::int64_t offset = k * static_cast<std::int64_t>(sizeof(typename Source::Stored));
    typename Vec::Reg r[chunk<Vec>];
    // Row i of every chunk rows, side by side.
    unroll<0, chunk<Vec>>([&](auto i) ROWMAX_FLATTEN {
        r[i] = Source::load_chunks([=](int c) ROWMAX_FLATTEN { return rows[i + c * chunk<Vec>] + offset; });
    });
    if constexpr (chunk<Vec> == 2) {
        column[0] = Vec::unpack_low(r[0], r[1]);
        column[1] = Vec::unpack_high(r[0], r[1]);
    } else {
        const auto low01 = Vec::unpack_low(r[0], r[1]);
        const auto high01 = Vec::unpack_high(r[0], r[1]);
        const auto low23 = Vec::unpack_low(r[2], r[3]);
        const auto high23 = Vec::unpack_high(r[2], r[3]);
        column[0] = Vec::unpack_low_pairs(low01, low23);
        column[1] = Vec::unpack_high_pairs(low01, low23);
        column[2] = Vec::unpack_low_pairs(high01, high23);
        column[3] = Vec::unpack_high_pairs(high01, high23);
    }
}

/// Element k of every row, one by one. Not inlined: only dimensions that are no multiple of a chunk need it.
template <class Source>
__attribute__((noinline)) void copy_column(const std::byte* const* rows, std::int64_t k,
                                           typename Source::Vec::Value* to) {
    using Stored = typename Source::Stored;
    for (int i = 0; i < Source::Vec::lanes; ++i) {
        to[i] = Source::value(read<Stored>(rows[i] + k * static_cast<std::int64_t>(sizeof(Stored))));
    }
}
template <class Source, class Vec = typename Source::Vec>
ROWMAX_INLINE typename Vec::Reg load_column(const std::byte* const* rows, std::int64_t k) {
    alignas(64) typename Vec::Value element[Vec::lanes];
    copy_column<Source>(rows, k, element);
    return Vec::load(element);
}

template <bool First, class Vec, int Q>
ROWMAX_INLINE void multiply_column(Tile<Vec, Q, 1>& tile, typename Vec::Reg column, const typename Vec::Value* query) {
    unroll<0, Q>([&](auto q) ROWMAX_FLATTEN {
        const auto x = Vec::broadcast(query[q]);
        tile.sum[0][q] = First ? Vec::mul(column, x) : Vec::fma(column, x, tile.sum[0][q]);
    });
}

/// One chunk from k on. `query` is the panel [dim][Q].
template <class Source, bool First, class Vec, int Q>
ROWMAX_INLINE void multiply_chunk(Tile<Vec, Q, 1>& tile, const std::byte* const* rows, const typename Vec::Value* query,
                                  std::int64_t k) {
    typename Vec::Reg column[chunk<Vec>];
    // Row addresses kept from chunk to chunk would take more registers than there are.
    load_columns<Source>(opaque(rows), k, column);
    unroll<0, chunk<Vec>>(
        [&](auto i) ROWMAX_FLATTEN { multiply_column<First && i == 0>(tile, column[i], query + (k + i) * Q); });
}

/// `length` products from k on, as one chain for every accumulator.
template <class Source, class Vec, int Q>
ROWMAX_INLINE void run_chain(Tile<Vec, Q, 1>& tile, const std::byte* const* rows, const typename Vec::Value* query,
                             std::int64_t k, std::int64_t length) {
    const std::int64_t end = k + length;
    if (length >= chunk<Vec>) {
        multiply_chunk<Source, true>(tile, rows, query, k);
        k = opaque(k + chunk<Vec>);
        for (; k + chunk<Vec> <= end; k = opaque(k + chunk<Vec>)) {
            multiply_chunk<Source, false>(tile, rows, query, k);
        }
    } else {
        multiply_column<true>(tile, load_column<Source>(rows, k), query + k * Q);
        ++k;
    }
    for (; k < end; ++k) multiply_column<false>(tile, load_column<Source>(rows, k), query + k * Q);
}

/// Two whole chains from k on, and their sum. Side by side where there are registers for both: the steps of one chain
/// wait for each other.
template <class Source, std::int64_t Length, class Vec, int Q>
ROWMAX_INLINE void run_two_chains(Tile<Vec, Q, 1>& tile, Waiting<Vec, Q, 1>& waiting, const std::byte* const* rows,
                                  const typename Vec::Value* query, std::int64_t k) {
    constexpr int most_side_by_side = 2;
    if constexpr (Q <= most_side_by_side) {
        Tile<Vec, Q, 1> right;
        multiply_chunk<Source, true>(tile, rows, query, k);
        multiply_chunk<Source, true>(right, rows, query, k + Length);
        const std::int64_t end = k + Length;
        for (k = opaque(k + chunk<Vec>); k < end; k = opaque(k + chunk<Vec>)) {
            multiply_chunk<Source, false>(tile, rows, query, k);
            multiply_chunk<Source, false>(right, rows, query, k + Length);
        }
        tile.each([&](auto r, auto q) ROWMAX_FLATTEN { tile.sum[r][q] = Vec::add(tile.sum[r][q], right.sum[r][q]); });
    } else {
        // Of a length that the compiler does not know: unrolled, two chunks' columns take more registers than there
        // are.
        run_chain<Source>(tile, rows, query, k, opaque(Length));
        wait_at(tile, waiting, 0);
        run_chain<Source>(tile, rows, query, k + Length, opaque(Length));
        add_waiting(tile, waiting, 0);
    }
}

/// Q query rows against one vector of document rows.
template <class Source, int Q, class Vec = typename Source::Vec>
inline void fold_group(const FoldArgs<typename Vec::Value>& args, std::int64_t first, const std::byte*& ahead) {
    Tile<Vec, Q, 1> tile;
    Waiting<Vec, Q, 1> waiting;
    const std::byte* const* rows = args.rows + first;
    const auto* query = args.panels;
    const auto fetch_for = [&](std::int64_t chains) ROWMAX_FLATTEN {
        if (ahead != nullptr) ahead = fetch(ahead, chains * args.ahead_lines);
    };
    std::int64_t k = 0;
    do {
        const std::int64_t left = args.dim - k;
        const std::int64_t chain = k / args.run;
        // Chains of 8 four at a time: which of so short chains have to be added to which is hard to predict.
        if (Source::short_chains && args.run == 8 && left >= 32) {
            fetch_for(2);
            run_two_chains<Source, 8>(tile, waiting, rows, query, k);
            wait_at(tile, waiting, 1);
            fetch_for(2);
            run_two_chains<Source, 8>(tile, waiting, rows, query, k + 16);
            add_waiting(tile, waiting, 1);
            join_tree(tile, waiting, chain + 3, left == 32, 2);
            k += 32;
        } else if (args.run == 32 && left >= 64) {
            fetch_for(2);
            run_two_chains<Source, 32>(tile, waiting, rows, query, k);
            join_tree(tile, waiting, chain + 1, left == 64, 1);
            k += 64;
        } else {
            fetch_for(1);
            const std::int64_t length = left < args.run ? left : args.run;
            run_chain<Source>(tile, rows, query, k, length);
            join_tree(tile, waiting, chain, left <= args.run);
            k += length;
        }
    } while (k < args.dim);
    if constexpr (Vec::more_rows > 0) {
        convert_sums(tile, [=](int q) ROWMAX_FLATTEN { return Vec::broadcast(query[args.dim * Q + q]); });
    }
    if (args.scales != nullptr) {
        const auto scales = Vec::load(args.scales + first);
        unroll<0, Q>([&](auto q) ROWMAX_FLATTEN { tile.sum[0][q] = scaled<Vec>(tile.sum[0][q], scales); });
    }
    const std::int32_t* tokens = args.tokens + first;
    fold_maxima(
        tile, [=](int) ROWMAX_FLATTEN { return Vec::load_tokens(tokens); }, args.best, args.index);
}

template <class Source, int Q, class Vec = typename Source::Vec>
inline void fold_groups(const FoldArgs<typename Vec::Value>& args) {
    const std::byte* ahead = args.ahead;
    for (std::int64_t first = 0; first < args.row_count; first += Vec::lanes) fold_group<Source, Q>(args, first, ahead);
}

/// args.panels: of every turn [dim][rows of the turn]; args.panel_count: query rows; args.best and args.index:
/// [query rows][lanes].
template <class Source, std::int64_t MostRows, class Vec = typename Source::Vec>
inline void fold_few(const FoldArgs<typename Vec::Value>& all) {
    constexpr auto most = static_cast<int>(MostRows < few_at_once ? MostRows : few_at_once);
    FoldArgs<typename Vec::Value> args = all;
    for (std::int64_t left = all.panel_count; left > 0; left -= args.panel_count) {
        args.panel_count = few_in_turn(left);
        unroll<1, most + 1>([&](auto q) {
            if (q == args.panel_count) fold_groups<Source, q>(args);
        });
        args.panels += args.panel_count * (args.dim + Vec::more_rows);
        args.best += args.panel_count * Vec::lanes;
        if (args.index != nullptr) args.index += args.panel_count * Vec::lanes;
        args.ahead = nullptr;
    }
}

}  // namespace
}  // namespace rowmax::cpu
