// Tiles of similarities that are written rather than folded, and the products that gradients of all of them need.
//
//      panel [dim][lanes]                        to [prefix][row][lane]      (L1 or L2, one block of document rows)
//      k ->  | q0 | q1 |  after prefix 1 : a copy of the sums, as if the row ended there
//              v    v    after prefix 2 : ..
//   row 0  d ->  s00  s01
//
// The order of additions is that of tile.hpp, so that a similarity has the same bits here and there. The chain that a
// prefix cuts goes on behind it.
//
// Included by files under inst/ only; everything here is private to them.
#pragma once

#include "cpu/kernels/rows.hpp"
#include "cpu/kernels/select_ops.hpp"
#include "cpu/kernels/tile.hpp"

namespace rowmax::cpu {
namespace {

/// `length` products from k on; `first`: they begin a chain.
template <class Vec, int V, int R>
ROWMAX_INLINE void run_part(Tile<Vec, V, R>& tile, const typename Vec::Value*& panel, std::int64_t& k,
                            std::int64_t length, bool first) {
    if (first) return run_chain(tile, panel, k, length);
    for (; length > 0; --length) multiply_steps<1, false>(tile, panel, k);
}

/// The sums as if the row ended here, times the factors of their rows.
template <class Vec, int V, int R>
inline void write_similarities(const SimilarityArgs<typename Vec::Value>& args, Tile<Vec, V, R> tile,
                               Waiting<Vec, V, R>& waiting, std::int64_t chain, std::int64_t first,
                               typename Vec::Value* to) {
    join_tree(tile, waiting, chain, true);
    unroll<0, R>([&](auto r) ROWMAX_FLATTEN {
        typename Vec::Value* row = to + (first + r) * args.row_step;
        unroll<0, V>([&](auto v) ROWMAX_FLATTEN {
            auto sum = tile.sum[r][v];
            if (args.scales != nullptr) sum = Vec::mul(sum, Vec::broadcast(args.scales[first + r]));
            Vec::store(row + v * Vec::lanes, sum);
        });
    });
}

template <class Vec, int V, int R>
inline void similarity_tile(const SimilarityArgs<typename Vec::Value>& args, std::int64_t panel_number,
                            std::int64_t first) {
    using TileOf = Tile<Vec, V, R>;
    const auto* panel = args.panels + panel_number * args.dim * TileOf::lanes;
    auto* to = args.to + panel_number * TileOf::lanes;
    TileOf tile;
    Waiting<Vec, V, R> waiting;
    unroll<0, R>([&](auto r) ROWMAX_FLATTEN { tile.row[r] = args.rows[first + r]; });
    std::int64_t prefix = 0;
    std::int64_t k = 0;
    for (std::int64_t chain = 0; prefix < args.prefix_count; ++chain) {
        const std::int64_t begin = chain * args.run;
        const std::int64_t end = begin + args.run < args.dim ? begin + args.run : args.dim;
        for (std::int64_t done = begin; done < end && prefix < args.prefix_count;) {
            const std::int64_t wanted = args.prefixes[prefix];
            const std::int64_t stop = wanted < end ? wanted : end;
            run_part(tile, panel, k, stop - done, done == begin);
            done = stop;
            if (done == wanted) write_similarities(args, tile, waiting, chain, first, to + args.prefix_step * prefix++);
        }
        if (prefix < args.prefix_count) join_tree(tile, waiting, chain, false);
    }
}

/// Every panel against every row: tiles of full height, then lower ones for what is left.
template <class Vec, int V>
inline void similarities(const SimilarityArgs<typename Vec::Value>& args) {
    constexpr int rows = tile_rows(Vec::registers);
    constexpr int low = tail_rows(rows);
    for (std::int64_t panel = 0; panel < args.panel_count; ++panel) {
        std::int64_t first = 0;
        for (; first + rows <= args.row_count; first += rows) similarity_tile<Vec, V, rows>(args, panel, first);
        for (; first < args.row_count; first += low) similarity_tile<Vec, V, low>(args, panel, first);
    }
}

/// `Targets` rows of targets, `V` vectors of dimensions from k on.
template <class Vec, int Targets, int V>
ROWMAX_INLINE void accumulate_tile(const AccumulateArgs<typename Vec::Value>& args, std::int64_t target,
                                   std::int64_t k) {
    constexpr std::int64_t size = sizeof(typename Vec::Value);
    typename Vec::Reg sum[Targets][V];
    unroll<0, Targets>([&](auto t)
                           ROWMAX_FLATTEN { unroll<0, V>([&](auto v) ROWMAX_FLATTEN { sum[t][v] = Vec::zero(); }); });
    const auto* weights = args.weights + target * args.target_step;
    for (std::int64_t r = 0; r < args.source_count; ++r, weights += args.source_step) {
        const std::byte* source = args.sources[r] + k * size;
        typename Vec::Reg x[V];
        unroll<0, V>([&](auto v) ROWMAX_FLATTEN { x[v] = Vec::load(source + v * Vec::lanes * size); });
        unroll<0, Targets>([&](auto t) ROWMAX_FLATTEN {
            const auto w = Vec::broadcast(weights[t * args.target_step]);
            unroll<0, V>([&](auto v) ROWMAX_FLATTEN { sum[t][v] = Vec::fma(w, x[v], sum[t][v]); });
        });
    }
    unroll<0, Targets>([&](auto t) ROWMAX_FLATTEN {
        auto* to = args.targets + (target + t) * args.dim + k;
        unroll<0, V>([&](auto v) ROWMAX_FLATTEN {
            Vec::store(to + v * Vec::lanes, Vec::add(Vec::load(to + v * Vec::lanes), sum[t][v]));
        });
    });
}

/// The dimensions that fill no vector, one by one.
template <class Value>
inline void accumulate_rest(const AccumulateArgs<Value>& args, std::int64_t target, std::int64_t k) {
    const Value* weights = args.weights + target * args.target_step;
    for (; k < args.dim; ++k) {
        Value sum = 0;
        for (std::int64_t r = 0; r < args.source_count; ++r) {
            const Value x = read<Value>(args.sources[r] + k * std::int64_t{sizeof(Value)});
            sum = fused(weights[r * args.source_step], x, sum);
        }
        args.targets[target * args.dim + k] += sum;
    }
}

template <class Vec, int Targets>
ROWMAX_INLINE void accumulate_targets(const AccumulateArgs<typename Vec::Value>& args, std::int64_t target) {
    std::int64_t k = 0;
    for (; k + 2 * Vec::lanes <= args.dim; k += 2 * Vec::lanes) accumulate_tile<Vec, Targets, 2>(args, target, k);
    for (; k + Vec::lanes <= args.dim; k += Vec::lanes) accumulate_tile<Vec, Targets, 1>(args, target, k);
    for (int t = 0; t < Targets; ++t) accumulate_rest(args, target + t, k);
}

template <class Vec>
inline void accumulate(const AccumulateArgs<typename Vec::Value>& args) {
    std::int64_t target = 0;
    for (; target + 4 <= args.target_count; target += 4) accumulate_targets<Vec, 4>(args, target);
    for (; target < args.target_count; ++target) accumulate_targets<Vec, 1>(args, target);
}

/// e^x by Cephes' polynomial (S. L. Moshier, expf): relative error 2e-7. Written out, so that every instruction set
/// computes the same; the compiler makes vectors of it.
ROWMAX_INLINE float exponential(float x) {
    x = x > 88.0F ? 88.0F : x;
    const float kept = x < -87.0F ? -87.0F : x;
    const float shifted = kept * 1.44269504F + 12582912.0F;  // the nearest whole number, in the lowest bits
    const float n = shifted - 12582912.0F;
    const float r = (kept - n * 0.693359375F) + n * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    const float fraction = (p * r) * r + r + 1.0F;
    std::uint32_t bits;
    __builtin_memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits + 127U) << 23;
    float power;
    __builtin_memcpy(&power, &bits, sizeof(power));
    return x < -87.0F ? 0.0F : fraction * power;
}

ROWMAX_INLINE double exponential(double x) {
    return __builtin_exp(x);
}

template <class Value>
inline void exponentials(Value* x, const Value* shift, Value factor, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) x[i] = exponential((x[i] - shift[i]) * factor);
}

template <class Vec>
inline void fold_rows(const typename Vec::Value* x, const std::int32_t* tokens, std::int64_t rows, std::int64_t lanes,
                      typename Vec::Value* best, typename Vec::IndexValue* index) {
    for (std::int64_t lane = 0; lane < lanes; lane += Vec::lanes) {
        auto m = Vec::load(best + lane);
        auto at = Vec::load_index(index + lane);
        for (std::int64_t r = 0; r < rows; ++r) {
            const auto similarity = Vec::load(x + r * lanes + lane);
            const auto wins = Vec::both(Vec::not_less_equal(similarity, m), Vec::ordered(m, m));
            m = Vec::select(wins, similarity, m);
            at = Vec::select_index(wins, Vec::broadcast_index(tokens[r]), at);
        }
        Vec::store(best + lane, m);
        Vec::store_index(index + lane, at);
    }
}

template <class Value>
inline bool any_above(const Value* x, const Value* limit, std::int64_t lanes) {
    int any = 0;
    for (std::int64_t lane = 0; lane < lanes; ++lane) any |= x[lane] <= limit[lane] ? 0 : 1;
    return any != 0;
}

template <class Vec>
constexpr SelectOps<typename Vec::Value> select_ops() {
    using Value = typename Vec::Value;
    return {&similarities<Vec, 2>, &similarities<Vec, 1>, &accumulate<Vec>,
            &fold_rows<Vec>,       &any_above<Value>,     &exponentials<Value>};
}

}  // namespace
}  // namespace rowmax::cpu
