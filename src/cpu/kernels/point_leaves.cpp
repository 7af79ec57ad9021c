#include "cpu/kernels/point_leaves.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/nearest_tuning.hpp"

namespace rowmax::cpu {

namespace {

template <class Value, int Slots>
struct Entry {
    Value x[Slots];
    std::int32_t index;
};

template <class Value, int Slots>
class Splitter {
  public:
    using Point = Entry<Value, Slots>;
    struct Range {
        Point* begin;
        Point* end;
        [[nodiscard]] std::int64_t count() const { return end - begin; }
    };

    explicit Splitter(std::int64_t dim) : dim_(static_cast<int>(dim)) {}

    void split_all(Range all, int threads) const {
        std::vector<Range> ranges{all};
        while (threads > 1 && std::ssize(ranges) < tasks_per_thread * threads &&
               ranges.front().count() >= least_shared_range) {
            std::vector<Range> halves(2 * ranges.size());
            core::parallel_for(threads, static_cast<std::int64_t>(ranges.size()), [&](std::int64_t i) {
                const Range range = ranges[static_cast<std::size_t>(i)];
                Point* middle = range.count() > tree_fan ? split(range) : range.end;
                halves[static_cast<std::size_t>(2 * i)] = {range.begin, middle};
                halves[static_cast<std::size_t>(2 * i + 1)] = {middle, range.end};
            });
            ranges = std::move(halves);
        }
        core::parallel_for(threads, static_cast<std::int64_t>(ranges.size()),
                           [&](std::int64_t i) { split_down(ranges[static_cast<std::size_t>(i)]); });
    }

  private:
    static constexpr int tasks_per_thread = 8;

    void split_down(Range range) const {
        while (range.count() > tree_fan) {
            Point* middle = split(range);
            split_down({middle, range.end});
            range.end = middle;
        }
    }

    /// Where a power of two of full leaves ends; what comes before is not greater along the longest side of the box.
    [[nodiscard]] Point* split(Range range) const {
        const auto leaves = static_cast<std::uint64_t>((range.count() + tree_fan - 1) / tree_fan);
        Point* middle = range.begin + static_cast<std::int64_t>(std::bit_ceil(leaves) / 2) * tree_fan;
        const int k = longest_side(range);
        std::nth_element(range.begin, middle, range.end, [k](const Point& a, const Point& b) {
            return a.x[k] < b.x[k] || (a.x[k] == b.x[k] && a.index < b.index);
        });
        return middle;
    }

    [[nodiscard]] int longest_side(Range range) const {
        Value least[Slots];
        Value largest[Slots];
        std::copy_n(range.begin->x, Slots, least);
        std::copy_n(range.begin->x, Slots, largest);
        for (const Point* point = range.begin; point != range.end; ++point) {
            for (int k = 0; k < Slots; ++k) {
                least[k] = std::min(least[k], point->x[k]);
                largest[k] = std::max(largest[k], point->x[k]);
            }
        }
        int longest = 0;
        for (int k = 1; k < dim_; ++k) {
            if (largest[k] - least[k] > largest[longest] - least[longest]) longest = k;
        }
        return longest;
    }

    int dim_;
};

constexpr std::int64_t nodes_above(std::int64_t count) {
    return (count + tree_fan - 1) / tree_fan;
}

}  // namespace

template <class Value>
PointLeaves<Value>::PointLeaves(const PointRows<Value>& rows, std::int64_t dim, int threads)
    : dim_(dim), leaves_(nodes_above(rows.count)) {
    points_.reserve(std::max<std::int64_t>(leaves_ * dim * tree_fan, 1));
    index_.reserve(std::max<std::int64_t>(leaves_ * tree_fan, 1));
    if (dim <= 3) {
        arrange<3>(rows, threads);
    } else if (dim <= 8) {
        arrange<8>(rows, threads);
    } else {
        arrange<16>(rows, threads);
    }
}

template <class Value>
template <int Slots>
void PointLeaves<Value>::arrange(const PointRows<Value>& rows, int threads) {
    using Point = Entry<Value, Slots>;
    Buffer<Point> entries;
    Point* all = entries.reserve(std::max<std::int64_t>(rows.count, 1));
    for (std::int64_t i = 0; i < rows.count; ++i) {
        Point& point = all[i];
        std::fill_n(std::copy_n(rows.data + i * rows.stride, dim_, point.x), Slots - dim_, Value{0});
        point.index = static_cast<std::int32_t>(i);
    }
    Splitter<Value, Slots>(dim_).split_all({all, all + rows.count}, threads);
    core::parallel_for(threads, nodes_above(leaves_), [&](std::int64_t chunk) {
        for (std::int64_t leaf = chunk * tree_fan; leaf < std::min((chunk + 1) * tree_fan, leaves_); ++leaf) {
            Value* to = points_.data() + leaf * dim_ * tree_fan;
            for (int slot = 0; slot < tree_fan; ++slot) {
                const std::int64_t i = leaf * tree_fan + slot;
                const bool there = i < rows.count;
                index_[i] = there ? all[i].index : no_point;
                for (std::int64_t k = 0; k < dim_; ++k)
                    to[k * tree_fan + slot] = there ? all[i].x[k] : std::numeric_limits<Value>::infinity();
            }
        }
    });
}

template <class Value>
void PointLeaves<Value>::add_boxes(int threads) {
    std::int64_t below = leaves_;
    for (levels_ = 0; below > 0; ++levels_) {
        const std::int64_t nodes = nodes_above(below);
        const std::int64_t boxes = nodes * dim_ * 2 * tree_fan;
        Value* box = boxes_[levels_].reserve(boxes);
        // Empty: infinity up to minus infinity.
        for (std::int64_t i = 0; i < boxes; i += tree_fan) {
            const Value side = std::numeric_limits<Value>::infinity();
            std::fill_n(box + i, tree_fan, i / tree_fan % 2 == 0 ? side : -side);
        }
        std::fill_n(lowest_[levels_].reserve(nodes * tree_fan), nodes * tree_fan, no_point);
        core::parallel_for(threads, nodes_above(below), [&](std::int64_t node) {
            if (levels_ == 0) {
                bound_leaves(node);
            } else {
                bound_nodes(levels_ - 1, node);
            }
        });
        if (nodes == 1) {
            ++levels_;
            return;
        }
        below = nodes;
    }
}

/// A node of level 0: boxes of its leaves.
template <class Value>
void PointLeaves<Value>::bound_leaves(std::int64_t node) {
    for (int child = 0; child < tree_fan; ++child) {
        const std::int64_t leaf = node * tree_fan + child;
        if (leaf >= leaves_) return;
        const Value* points = points_.data() + leaf * dim_ * tree_fan;
        const std::int32_t* index = index_.data() + leaf * tree_fan;
        const auto count = std::find(index, index + tree_fan, no_point) - index;
        for (std::int64_t k = 0; k < dim_; ++k) {
            const Value* x = points + k * tree_fan;
            Value* side = box(0, node) + 2 * k * tree_fan + child;
            side[0] = *std::min_element(x, x + count);
            side[tree_fan] = *std::max_element(x, x + count);
        }
        lowest_[0][leaf] = *std::min_element(index, index + count);
    }
}

/// A node above nodes of `level`: boxes of these.
template <class Value>
void PointLeaves<Value>::bound_nodes(int level, std::int64_t node) {
    const std::int64_t below = nodes_of(level);
    for (int child = 0; child < tree_fan; ++child) {
        const std::int64_t from = node * tree_fan + child;
        if (from >= below) return;
        for (std::int64_t k = 0; k < dim_; ++k) {
            const Value* least = box(level, from) + 2 * k * tree_fan;
            Value* side = box(level + 1, node) + 2 * k * tree_fan + child;
            side[0] = *std::min_element(least, least + tree_fan);
            side[tree_fan] = *std::max_element(least + tree_fan, least + 2 * tree_fan);
        }
        const std::int32_t* lowest = lowest_[level].data() + from * tree_fan;
        lowest_[level + 1][from] = *std::min_element(lowest, lowest + tree_fan);
    }
}

template <class Value>
std::int64_t PointLeaves<Value>::nodes_of(int level) const {
    std::int64_t nodes = leaves_;
    for (int i = 0; i <= level; ++i) nodes = nodes_above(nodes);
    return nodes;
}

template <class Value>
PointTree<Value> PointLeaves<Value>::tree() const {
    PointTree<Value> tree;
    for (int i = 0; i < levels_; ++i) tree.level[i] = {boxes_[i].data(), lowest_[i].data()};
    tree.levels = levels_;
    tree.dim = dim_;
    tree.leaves = leaves_;
    tree.points = points();
    tree.index = index();
    return tree;
}

template class PointLeaves<float>;
template class PointLeaves<double>;

}  // namespace rowmax::cpu
