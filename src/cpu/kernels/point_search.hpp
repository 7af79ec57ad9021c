// The search of a tree of points: boxes of 16 children, or 16 points of a leaf, in a few vectors.
//
// Exact, to the bit: the bound of a box adds up, in the order of a distance, for every coordinate how far the source
// lies outside. Rounding never reverses an order, so no point of the box has a distance below the bound as they are
// computed. A child is left out only when its bound is larger than the farthest distance kept, or equals it and no
// index below the child is lower. What is found is the least (distance, index), whichever way leads there.
//
// Sources come in an order in which neighbours follow each other; each begins with the leaf that held its predecessor's
// nearest point, and leaves out most of the tree at once.
// Included by files under inst/ only; everything here is private to them.
#pragma once

#include "cpu/kernels/point_fold.hpp"
#include "cpu/kernels/point_list.hpp"
#include "cpu/kernels/point_ops.hpp"
#include "cpu/prim/unroll.hpp"

namespace rowmax::cpu {
namespace {

/// The nearest target.
template <class Value>
struct OneNearest {
    Value distance = __builtin_inf();
    std::int32_t index = no_point;

    [[nodiscard]] Value limit() const { return distance; }
    [[nodiscard]] bool wants(Value d, std::int32_t i) const { return d < distance || (d == distance && i < index); }
    /// Whether it is now the nearest.
    bool take(Value d, std::int32_t i) {
        if (!wants(d, i)) return false;
        distance = d;
        index = i;
        return true;
    }
};

/// The k nearest.
template <class Value>
struct SeveralNearest {
    NeighbourList<Value> list;

    [[nodiscard]] Value limit() const {
        return list.count < list.k ? static_cast<Value>(__builtin_inf()) : list.distance[list.k - 1];
    }
    [[nodiscard]] bool wants(Value d, std::int32_t i) const {
        if (list.count < list.k) return i != no_point;
        const Value last = list.distance[list.k - 1];
        return d < last || (d == last && i < list.index[list.k - 1]);
    }
    bool take(Value d, std::int32_t i) { return wants(d, i) && offer(list, d, i) == 0; }
};

template <class Vec, bool Squared, class Best>
class TreeSearch {
  public:
    using Value = typename Vec::Value;
    static constexpr int vectors = tree_fan / Vec::lanes;

    TreeSearch(const PointTree<Value>& tree, const Value* source) : tree_(tree), source_(source) {}

    /// `start`: a leaf to begin with, -1 for none. Returns the leaf of the nearest point.
    std::int64_t run(Best& best, std::int64_t start) {
        best_ = &best;
        begun_ = start;
        nearest_ = start;
        if (start >= 0) look_at(start);
        if (tree_.levels > 0) visit(tree_.levels - 1, 0);
        return nearest_;
    }

  private:
    struct Child {
        Value bound;
        std::int32_t lowest;
        std::int32_t number;
    };

    void visit(int level, std::int64_t node) {
        Child children[tree_fan];
        const int count = near_children(level, node, children);
        for (int c = 0; c < count; ++c) {
            if (!best_->wants(children[c].bound, children[c].lowest)) continue;
            const std::int64_t below = node * tree_fan + children[c].number;
            if (level > 0) {
                visit(level - 1, below);
            } else if (below != begun_) {
                look_at(below);
            }
        }
    }

    /// Those worth a visit, the nearest first.
    int near_children(int level, std::int64_t node, Child* children) const {
        alignas(64) Value bound[tree_fan];
        unsigned near = bounds(tree_.level[level].boxes + node * tree_.dim * 2 * tree_fan, bound);
        const std::int32_t* lowest = tree_.level[level].lowest + node * tree_fan;
        int count = 0;
        for (; near != 0; near &= near - 1) {
            const int c = __builtin_ctz(near);
            if (!best_->wants(bound[c], lowest[c])) continue;
            int at = count++;
            for (; at > 0 && before(bound[c], lowest[c], children[at - 1]); --at) children[at] = children[at - 1];
            children[at] = {bound[c], lowest[c], c};
        }
        return count;
    }

    static bool before(Value bound, std::int32_t lowest, const Child& other) {
        return bound < other.bound || (bound == other.bound && lowest < other.lowest);
    }

    ROWMAX_INLINE unsigned bounds(const Value* box, Value* bound) const {
        const auto limit = Vec::broadcast(best_->limit());
        unsigned near = 0;
        unroll<0, vectors>([&](auto v) ROWMAX_FLATTEN {
            auto sum = Vec::zero();
            for (std::int64_t k = 0; k < tree_.dim; ++k) {
                const auto p = Vec::broadcast(source_[k]);
                const auto least = Vec::load(box + 2 * k * tree_fan + v * Vec::lanes);
                const auto largest = Vec::load(box + (2 * k + 1) * tree_fan + v * Vec::lanes);
                const auto outside = Vec::max(Vec::max(Vec::sub(least, p), Vec::sub(p, largest)), Vec::zero());
                sum = Squared ? Vec::fma(outside, outside, sum) : Vec::add(sum, outside);
            }
            Vec::store(bound + v * Vec::lanes, sum);
            near |= Vec::bits(Vec::less_equal(sum, limit)) << (v * Vec::lanes);
        });
        return near;
    }

    ROWMAX_INLINE void look_at(std::int64_t leaf) {
        alignas(64) Value distance[tree_fan];
        const Value* points = tree_.points + leaf * tree_.dim * tree_fan;
        const auto limit = Vec::broadcast(best_->limit());
        unsigned near = 0;
        unroll<0, vectors>([&](auto v) ROWMAX_FLATTEN {
            auto sum = Vec::zero();
            for (std::int64_t k = 0; k < tree_.dim; ++k) {
                const auto target = Vec::load(points + k * tree_fan + v * Vec::lanes);
                sum = add_term<Vec, Squared>(sum, target, Vec::broadcast(source_[k]));
            }
            Vec::store(distance + v * Vec::lanes, sum);
            near |= Vec::bits(Vec::less_equal(sum, limit)) << (v * Vec::lanes);
        });
        for (; near != 0; near &= near - 1) {
            const int slot = __builtin_ctz(near);
            const std::int32_t index = tree_.index[leaf * tree_fan + slot];
            if (index != no_point && best_->take(distance[slot], index)) nearest_ = leaf;
        }
    }

    const PointTree<Value>& tree_;
    const Value* source_;
    Best* best_ = nullptr;
    std::int64_t begun_ = -1;
    std::int64_t nearest_ = -1;
};

/// Calls search(source, its index) for all sources.
template <class Value, class F>
ROWMAX_INLINE void for_queries(const TreeQueries<Value>& queries, std::int64_t dim, F search) {
    Value source[dims_of_run];
    for (std::int64_t leaf = queries.first; leaf < queries.end; ++leaf) {
        const Value* points = queries.points + leaf * dim * tree_fan;
        for (int slot = 0; slot < tree_fan; ++slot) {
            const std::int32_t index = queries.index[leaf * tree_fan + slot];
            if (index == no_point) break;
            for (std::int64_t k = 0; k < dim; ++k) source[k] = points[k * tree_fan + slot];
            search(source, std::int64_t{index});
        }
    }
}

template <class Vec, bool Squared>
void search_points(const PointTree<typename Vec::Value>& tree, const TreeQueries<typename Vec::Value>& queries) {
    using Value = typename Vec::Value;
    std::int64_t leaf = -1;
    for_queries(queries, tree.dim, [&](const Value* source, std::int64_t at) {
        if (queries.k == 1) {
            OneNearest<Value> best;
            leaf = TreeSearch<Vec, Squared, OneNearest<Value>>(tree, source).run(best, leaf);
            queries.distance[at] = best.distance;
            queries.nearest[at] = best.index;
            return;
        }
        SeveralNearest<Value> best;
        best.list = {queries.distance + at * queries.k, queries.nearest + at * queries.k, queries.k, 0};
        leaf = TreeSearch<Vec, Squared, SeveralNearest<Value>>(tree, source).run(best, leaf);
        for (std::int64_t j = best.list.count; j < queries.k; ++j) {
            best.list.distance[j] = static_cast<Value>(__builtin_inf());
            best.list.index[j] = no_point;
        }
    });
}

}  // namespace
}  // namespace rowmax::cpu
