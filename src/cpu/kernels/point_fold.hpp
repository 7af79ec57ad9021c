// Every pair of points: R targets at a time against a panel of two vectors of sources.
//
//      panel [dim][lanes] (sources, L1 or L2)             best, index [lanes]
//      k ->   | p0 | p1 |                                    ^  minimum over the targets, in order
//               v    v                                       |
//   target t ->  s00  s01    s[r][v] += (broadcast(target r, k) - p[v])^2: R x 2 accumulators, in registers
//   target t+1   s10  s11
//
// After 16 coordinates the sums join those of the block, in memory that stays in L1.
// Included by files under inst/ only; everything here is private to them.
#pragma once

#include "cpu/kernels/point_list.hpp"
#include "cpu/kernels/point_ops.hpp"
#include "cpu/prim/unroll.hpp"

namespace rowmax::cpu {
namespace {

inline constexpr int panel_vectors = 2;

template <class Vec>
constexpr int targets_at_once = Vec::registers == 32 ? 8 : 4;

template <class Vec, bool Squared>
ROWMAX_INLINE typename Vec::Reg add_term(typename Vec::Reg sum, typename Vec::Reg a, typename Vec::Reg b) {
    const auto d = Vec::sub(a, b);
    if constexpr (Squared) {
        return Vec::fma(d, d, sum);
    } else {
        return Vec::add(sum, Vec::abs(d));
    }
}

/// Distances of R targets to a panel.
template <class Vec, bool Squared, int R>
struct DistanceTile {
    using Value = typename Vec::Value;
    static constexpr int lanes = Vec::lanes;
    typename Vec::Reg sum[R][panel_vectors];

    template <class F>
    static ROWMAX_INLINE void each(F f) {
        unroll<0, R>([&](auto r) ROWMAX_FLATTEN { unroll<0, panel_vectors>([&](auto v) ROWMAX_FLATTEN { f(r, v); }); });
    }

    /// One chain of additions over coordinates from .. to.
    ROWMAX_INLINE void run(const Value* panel, const Value* rows, std::int64_t stride, std::int64_t from,
                           std::int64_t to) {
        each([&](auto r, auto v) ROWMAX_FLATTEN { sum[r][v] = Vec::zero(); });
        for (std::int64_t k = from; k < to; ++k) {
            typename Vec::Reg p[panel_vectors];
            unroll<0, panel_vectors>([&](auto v)
                                         ROWMAX_FLATTEN { p[v] = Vec::load(panel + (k * panel_vectors + v) * lanes); });
            unroll<0, R>([&](auto r) ROWMAX_FLATTEN {
                const auto target = Vec::broadcast(rows[r * stride + k]);
                unroll<0, panel_vectors>(
                    [&](auto v) ROWMAX_FLATTEN { sum[r][v] = add_term<Vec, Squared>(sum[r][v], target, p[v]); });
            });
        }
    }

    struct Sums {
        alignas(64) Value at[R][panel_vectors][lanes];
        void clear() {
            for (auto& row : at) {
                for (auto& vector : row) Vec::store(vector, Vec::zero());
            }
        }
    };

    /// Adds the tile to sums in memory, and takes these over.
    ROWMAX_INLINE void join(Sums& sums) {
        each([&](auto r, auto v) ROWMAX_FLATTEN {
            sum[r][v] = Vec::add(Vec::load(sums.at[r][v]), sum[r][v]);
            Vec::store(sums.at[r][v], sum[r][v]);
        });
    }

    ROWMAX_INLINE void fill(const Value* panel, const Value* rows, std::int64_t stride, std::int64_t dim) {
        if (dim <= dims_of_run) return run(panel, rows, stride, 0, dim);
        fill_long(panel, rows, stride, dim);
    }

    ROWMAX_INLINE void fill_long(const Value* panel, const Value* rows, std::int64_t stride, std::int64_t dim) {
        Sums total;
        Sums block;
        total.clear();
        std::int64_t k = 0;
        do {
            const std::int64_t end = dim - k < dims_of_block ? dim : k + dims_of_block;
            block.clear();
            do {
                const std::int64_t next = end - k < dims_of_run ? end : k + dims_of_run;
                run(panel, rows, stride, k, next);
                join(block);
                k = next;
            } while (k < end);
            join(total);
        } while (k < dim);
    }
};

/// Calls consume(number of the target, vectors of its distances) for all targets, in order.
template <class Vec, bool Squared, class Consume>
ROWMAX_INLINE void for_targets(const PointFold<typename Vec::Value>& fold, Consume consume) {
    constexpr int several = targets_at_once<Vec>;
    const std::int64_t stride = fold.targets.stride;
    std::int64_t t = 0;
    for (; t + several <= fold.targets.count; t += several) {
        DistanceTile<Vec, Squared, several> tile;
        tile.fill(fold.panel, fold.targets.data + t * stride, stride, fold.dim);
        unroll<0, several>([&](auto r)
                               ROWMAX_FLATTEN { consume(static_cast<std::int32_t>(fold.first + t + r), tile.sum[r]); });
    }
    for (; t < fold.targets.count; ++t) {
        DistanceTile<Vec, Squared, 1> tile;
        tile.fill(fold.panel, fold.targets.data + t * stride, stride, fold.dim);
        consume(static_cast<std::int32_t>(fold.first + t), tile.sum[0]);
    }
}

/// The nearest of a panel's sources so far, in registers.
template <class Vec>
struct PanelBest {
    typename Vec::Reg least[panel_vectors];
    typename Vec::IndexReg where[panel_vectors];

    ROWMAX_INLINE void load(const typename Vec::Value* best, const typename Vec::IndexValue* index) {
        unroll<0, panel_vectors>([&](auto v) ROWMAX_FLATTEN {
            least[v] = Vec::load(best + v * Vec::lanes);
            where[v] = Vec::load_index(index + v * Vec::lanes);
        });
    }
    ROWMAX_INLINE void store(typename Vec::Value* best, typename Vec::IndexValue* index) const {
        unroll<0, panel_vectors>([&](auto v) ROWMAX_FLATTEN {
            Vec::store(best + v * Vec::lanes, least[v]);
            Vec::store_index(index + v * Vec::lanes, where[v]);
        });
    }
    ROWMAX_INLINE void take(std::int32_t target, const typename Vec::Reg* distance) {
        const auto number = Vec::broadcast_index(target);
        unroll<0, panel_vectors>([&](auto v) ROWMAX_FLATTEN {
            const auto nearer = Vec::greater(least[v], distance[v]);
            least[v] = Vec::select(nearer, distance[v], least[v]);
            where[v] = Vec::select_index(nearer, number, where[v]);
        });
    }
};

template <class Vec, bool Squared>
void fold_points(const PointFold<typename Vec::Value>& fold, typename Vec::Value* best,
                 typename Vec::IndexValue* index) {
    PanelBest<Vec> nearest;
    nearest.load(best, index);
    for_targets<Vec, Squared>(fold, [&](std::int32_t target, const typename Vec::Reg* distance)
                                        ROWMAX_FLATTEN { nearest.take(target, distance); });
    nearest.store(best, index);
}

template <class Vec, bool Squared>
void fold_points_both(const PointFold<typename Vec::Value>& fold, typename Vec::Value* best,
                      typename Vec::IndexValue* index, const PointColumns<typename Vec::Value>& columns) {
    PanelBest<Vec> nearest;
    nearest.load(best, index);
    for_targets<Vec, Squared>(fold, [&](std::int32_t target, const typename Vec::Reg* distance) ROWMAX_FLATTEN {
        nearest.take(target, distance);
        const std::int64_t at = (target - fold.first) * Vec::lanes;
        auto least = Vec::load(columns.least + at);
        auto source = Vec::load_index(columns.source + at);
        unroll<0, panel_vectors>([&](auto v) ROWMAX_FLATTEN {
            const auto nearer = Vec::greater(least, distance[v]);
            least = Vec::select(nearer, distance[v], least);
            const auto first = static_cast<std::int32_t>(columns.first) + v * Vec::lanes;
            source = Vec::select_index(nearer, Vec::broadcast_index(first), source);
        });
        Vec::store(columns.least + at, least);
        Vec::store_index(columns.source + at, source);
    });
    nearest.store(best, index);
}

template <class Vec, bool Squared>
void fold_point_lists(const PointFold<typename Vec::Value>& fold, NeighbourList<typename Vec::Value>* lists,
                      typename Vec::Value* limits) {
    using Value = typename Vec::Value;
    for_targets<Vec, Squared>(fold, [&](std::int32_t target, const typename Vec::Reg* distance) ROWMAX_FLATTEN {
        unroll<0, panel_vectors>([&](auto v) ROWMAX_FLATTEN {
            // Nearer than the last of the list, or NaN, or the list is not full.
            const auto limit = Vec::load(limits + v * Vec::lanes);
            unsigned lanes = Vec::bits(Vec::not_less_equal(limit, distance[v]));
            if (lanes == 0) return;
            alignas(64) Value d[Vec::lanes];
            Vec::store(d, distance[v]);
            for (; lanes != 0; lanes &= lanes - 1) {
                const int lane = __builtin_ctz(lanes);
                NeighbourList<Value>& list = lists[v * Vec::lanes + lane];
                offer(list, d[lane], target);
                if (list.count == list.k) limits[v * Vec::lanes + lane] = list.distance[list.k - 1];
            }
        });
    });
}

}  // namespace
}  // namespace rowmax::cpu
