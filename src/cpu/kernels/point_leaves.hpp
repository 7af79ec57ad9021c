// Points in leaves of 16 neighbours: an order for sources, and with boxes above them a tree of targets (point_ops.hpp).
//
// A k-d tree (Bentley, 1975) whose every split leaves a power of two of full leaves on the left; since leaves lie one
// behind the other, 16 of them, and 16 nodes of a level, are the children of the next level's node, and nothing points
// anywhere. Points are ordered by (coordinate, index), so the leaves depend on nothing but the points.
#pragma once

#include <cstdint>

#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/point_ops.hpp"

namespace rowmax::cpu {

template <class Value>
class PointLeaves {
  public:
    /// Finite points of at most core::most_tree_dims coordinates.
    PointLeaves(const PointRows<Value>& rows, std::int64_t dim, int threads);

    /// Makes what tree() shows.
    void add_boxes(int threads);
    [[nodiscard]] PointTree<Value> tree() const;

    [[nodiscard]] std::int64_t count() const { return leaves_; }
    /// [leaf][dim][tree_fan]; infinity behind the last point.
    [[nodiscard]] const Value* points() const { return points_.data(); }
    /// [leaf][tree_fan]; no_point behind the last point.
    [[nodiscard]] const std::int32_t* index() const { return index_.data(); }

  private:
    template <int Slots>
    void arrange(const PointRows<Value>& rows, int threads);
    void bound_leaves(std::int64_t node);
    void bound_nodes(int level, std::int64_t node);
    [[nodiscard]] std::int64_t nodes_of(int level) const;
    Value* box(int level, std::int64_t node) { return boxes_[level].data() + node * dim_ * 2 * tree_fan; }

    std::int64_t dim_;
    std::int64_t leaves_;
    Buffer<Value> points_;
    Buffer<std::int32_t> index_;
    int levels_ = 0;
    Buffer<Value> boxes_[most_tree_levels];
    Buffer<std::int32_t> lowest_[most_tree_levels];
};

}  // namespace rowmax::cpu
