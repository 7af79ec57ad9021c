// The nearest targets of every source, by a tree of boxes over the targets.
//
//   a warp       32 sources that follow each other in their own tree's order, so they are neighbours
//   a node       each lane tests one of 32 children, first against the box around all sources, then against each of
//                them: can a point in it be as near as what that source has found so far?
//   a leaf       32 targets in shared memory; each lane compares its source with all of them
//
// A source begins with a look at what lies where it would be in the targets' order. The walk is exact to the bit, ties
// included: the bound of a box is computed in the order of a distance, so that rounding cannot lift it above the
// distance of a point inside; and a box at the distance already found is entered while it holds a lower number.
#pragma once

#include "cuda/kernels/lower_bound.cuh"
#include "cuda/kernels/point_lists.cuh"
#include "cuda/kernels/point_tree.cuh"

namespace rowmax::cuda {

/// What a warp keeps in shared memory: its sources and how far they go, the leaf that it compares with, and the
/// children left at each level.
template <class Point, class Value>
struct WalkMemory {
    Point sources[tree_fan];
    Value limits[tree_fan];
    std::int32_t last[tree_fan];
    Point points[tree_fan];
    std::int32_t numbers[tree_fan];
    std::uint32_t left[most_tree_levels];
    std::int64_t first[most_tree_levels];
};

/// What a source keeps: the nearest target.
template <class Value>
class KeptNearest {
  public:
    __device__ void offer(Value distance, std::int32_t number) {
        if (!(distance < best_ || (distance == best_ && number < index_))) return;
        best_ = distance;
        index_ = number;
    }
    [[nodiscard]] __device__ Value limit() const { return best_; }
    [[nodiscard]] __device__ std::int32_t last() const { return index_; }

    /// Some of the targets around a place in their order; what is met again changes nothing.
    template <class Distance>
    __device__ void guess(std::int64_t place, std::int64_t targets, const std::int32_t* numbers, Distance distance) {
#pragma unroll
        for (int i = -2; i < 2; ++i) {
            const std::int64_t at = core::detail::clamp(place + i, 0, targets - 1);
            offer(distance(at), numbers[at]);
        }
    }

    /// Targets 0 .. count - 1 of a leaf; all lanes of the warp come here. False when none entered anywhere.
    template <class Distance>
    __device__ bool take(int count, const std::int32_t* numbers, Distance distance) {
        Value least = infinite<Value>();
#pragma unroll 4
        for (int i = 0; i < count; ++i) {
            const Value d = distance(i);
            least = d < least ? d : least;
        }
        if (ballot(least <= best_) == 0) return false;
        std::int32_t lowest = no_target;
#pragma unroll 4
        for (int i = 0; i < count; ++i) {
            const bool is_least = distance(i) == least;
            if (is_least && numbers[i] < lowest) lowest = numbers[i];
        }
        offer(least, lowest);
        return true;
    }

  private:
    Value best_ = infinite<Value>();
    std::int32_t index_ = no_target;
};

/// Or the k nearest.
template <class Value>
class KeptList {
  public:
    __device__ explicit KeptList(const PointList<Value>& list) : list_(list) {}
    [[nodiscard]] __device__ Value limit() const { return list_.limit(); }
    [[nodiscard]] __device__ std::int32_t last() const { return list_.last(); }
    [[nodiscard]] __device__ PointList<Value>& list() { return list_; }

    /// The k-th nearest is no farther than the farthest of any k targets. They enter when the walk comes to them.
    template <class Distance>
    __device__ void guess(std::int64_t place, std::int64_t targets, const std::int32_t* /*numbers*/,
                          Distance distance) {
        const std::int64_t k = list_.k();
        if (targets < k) return;
        const std::int64_t first = core::detail::clamp(place - k / 2, 0, targets - k);
        Value farthest = 0;
        for (std::int64_t i = 0; i < k; ++i) farthest = fmax(farthest, distance(first + i));
        list_.cap(farthest);
    }

    template <class Distance>
    __device__ bool take(int count, const std::int32_t* numbers, Distance distance) {
        for (int i = 0; i < count; ++i) list_.offer(distance(i), numbers[i]);
        return true;
    }

  private:
    PointList<Value> list_;
};

template <class Value, bool Squared, int C, class Kept>
class TreeWalk {
  public:
    using Point = HeldPoint<Value, C>;

    __device__ TreeWalk(const PointTree& tree, std::int64_t item, WalkMemory<Point, Value>& memory, const Point& source,
                        Kept& kept)
        : kept_(kept),
          tree_(tree),
          memory_(memory),
          item_(item),
          first_point_(tree.side.first(item)),
          points_(tree.side.size(item)),
          source_(source) {
#pragma unroll
        for (int k = 0; k < C; ++k) {
            low_[k] = high_[k] = source.at[k];
#pragma unroll
            for (int step = 16; step > 0; step /= 2) {
                low_[k] = fmin(low_[k], exchange(low_[k], step));
                high_[k] = fmax(high_[k], exchange(high_[k], step));
            }
        }
        memory_.sources[threadIdx.x % 32] = source;
        look_at_all();
    }

    __device__ void run() {
        if (points_ == 0) return;
        guess();
        int level = tree_.levels - 1;
        open(level, 0);
        while (true) {
            const std::uint32_t left = memory_.left[level];
            __syncwarp();
            if (left == 0) {
                if (++level == tree_.levels) return;
                continue;
            }
            const std::int64_t child = memory_.first[level] + __ffs(static_cast<int>(left)) - 1;
            if (threadIdx.x % 32 == 0) memory_.left[level] = left & (left - 1);
            __syncwarp();
            if (level == 0) {
                compare(child);
            } else {
                open(--level, child * tree_fan);
            }
        }
    }

  private:
    struct Box {
        Value low[C];
        Value high[C];
        std::int32_t lowest;
    };
    /// A node's box; `node` is counted from the item's first.
    [[nodiscard]] __device__ Box box(int level, std::int64_t node) const {
        const std::int64_t at = tree_.first_node(first_point_, item_, level) + node;
        const std::int64_t nodes = tree_.nodes(level);
        const Value* boxes = static_cast<const Value*>(tree_.boxes) + tree_.before[level] * 2 * C + at;
        Box box;
#pragma unroll
        for (int k = 0; k < C; ++k) {
            box.low[k] = boxes[2 * k * nodes];
            box.high[k] = boxes[(2 * k + 1) * nodes];
        }
        box.lowest = tree_.lowest[tree_.before[level] + at];
        return box;
    }

    /// No more than the distance of any point in the box to any point between `low` and `high`.
    [[nodiscard]] __device__ static Value bound(const Box& box, const Value* low, const Value* high) {
        Value sum = 0;
#pragma unroll
        for (int k = 0; k < C; ++k) {
            const Value gap = fmax(fmax(box.low[k] - high[k], low[k] - box.high[k]), Value{0});
            sum = add_term<Squared>(sum, gap, Value{0});
        }
        return sum;
    }
    [[nodiscard]] __device__ static bool may_hold(Value bound, std::int32_t lowest, Value best, std::int32_t index) {
        return bound < best || (bound == best && lowest < index);
    }

    /// Children of a node, or the roots: those that are worth a look are left to do.
    __device__ void open(int level, std::int64_t first) {
        const std::int64_t node = first + threadIdx.x % 32;
        bool worth = node < PointTree::nodes_for(points_, level);
        if (worth) {
            const Box child = box(level, node);
            worth = may_hold(bound(child, low_, high_), child.lowest, farthest_, last_) && wanted(child);
        }
        const std::uint32_t left = ballot(worth);
        if (threadIdx.x % 32 == 0) {
            memory_.left[level] = left;
            memory_.first[level] = first;
        }
        __syncwarp();
    }

    /// Whether any source may find something in the box. The box around all of them is large where the order jumps.
    [[nodiscard]] __device__ bool wanted(const Box& child) const {
        bool worth = false;
#pragma unroll 4
        for (int s = 0; s < tree_fan; ++s) {
            const Point source = memory_.sources[s];
            worth =
                worth || may_hold(bound(child, source.at, source.at), child.lowest, memory_.limits[s], memory_.last[s]);
        }
        return worth;
    }

    /// Each source by itself: a look at the targets around its place in their order.
    __device__ void guess() {
        const std::uint32_t key = morton_key<Value, C>(source_, tree_.bounds[item_], item_, tree_.bits);
        const std::int64_t place = lower_bound(tree_.keys + first_point_, points_, key);
        const auto* targets = static_cast<const Point*>(tree_.points) + first_point_;
        kept_.guess(place, points_, tree_.numbers + first_point_,
                    [&](std::int64_t at) { return distance(targets[at]); });
        look_at_all();
    }

    __device__ void compare(std::int64_t leaf) {
        const Box around = box(0, leaf);
        const bool worth = may_hold(bound(around, source_.at, source_.at), around.lowest, kept_.limit(), kept_.last());
        if (ballot(worth) == 0) return;
        const std::int64_t first = leaf * tree_fan;
        const int count = static_cast<int>(points_ - first < tree_fan ? points_ - first : tree_fan);
        const int lane = static_cast<int>(threadIdx.x % 32);
        if (lane < count) {
            memory_.points[lane] = static_cast<const Point*>(tree_.points)[first_point_ + first + lane];
            memory_.numbers[lane] = tree_.numbers[first_point_ + first + lane];
        }
        __syncwarp();
        const bool entered = kept_.take(count, memory_.numbers, [&](int i) { return distance(memory_.points[i]); });
        if (entered) look_at_all();
        __syncwarp();
    }

    /// How far any of the warp's sources would still go.
    __device__ void look_at_all() {
        farthest_ = kept_.limit();
        last_ = kept_.last();
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            farthest_ = fmax(farthest_, exchange(farthest_, step));
            const std::int32_t other = exchange(last_, step);
            last_ = other > last_ ? other : last_;
        }
        memory_.limits[threadIdx.x % 32] = kept_.limit();
        memory_.last[threadIdx.x % 32] = kept_.last();
        __syncwarp();
    }

    [[nodiscard]] __device__ Value distance(const Point& target) const {
        Value sum = 0;
#pragma unroll
        for (int k = 0; k < C; ++k) sum = add_term<Squared>(sum, source_.at[k], target.at[k]);
        return sum;
    }

    Kept& kept_;
    const PointTree& tree_;
    WalkMemory<Point, Value>& memory_;
    std::int64_t item_;
    std::int64_t first_point_;
    std::int64_t points_;
    Point source_;
    Value low_[C];  ///< of all sources
    Value high_[C];
    Value farthest_ = infinite<Value>();  ///< of the lanes' limits, and the last of their targets
    std::int32_t last_ = no_target;
};

/// The source of one lane.
struct LaneSource {
    std::int64_t item = -1;  ///< none: this warp has nothing to do
    std::int64_t at = 0;     ///< in the tree's order; lanes beyond the last source repeat it
    bool is_source = false;
};
__device__ __forceinline__ LaneSource lane_source(const PointTree& sources, const PointTree& targets) {
    const std::int64_t warp = (std::int64_t{blockIdx.x} * search_threads + threadIdx.x) / 32;
    if (warp >= sources.nodes(0)) return {};
    const PointTile here = tile_at(sources.side, sources.side.items.count, warp, tree_fan);
    const std::int64_t count = sources.side.size(here.item);
    if (here.begin >= count) return {};
    if (sources.bounds[here.item].odd != 0 || targets.bounds[here.item].odd != 0) return {};
    const std::int64_t mine = here.begin + threadIdx.x % 32;
    return {here.item, sources.side.first(here.item) + (mine < count ? mine : count - 1), mine < count};
}

template <class Value, bool Squared, int C>
__global__ void __launch_bounds__(search_threads, 1) search_tree(const __grid_constant__ SearchArguments call) {
    using Point = HeldPoint<Value, C>;
    __shared__ WalkMemory<Point, Value> memory[search_threads / 32];
    const LaneSource mine = lane_source(call.sources, call.targets);
    if (mine.item < 0) return;
    KeptNearest<Value> kept;
    TreeWalk<Value, Squared, C, KeptNearest<Value>> walk(call.targets, mine.item, memory[threadIdx.x / 32],
                                                         static_cast<const Point*>(call.sources.points)[mine.at], kept);
    walk.run();
    if (!mine.is_source) return;
    const PointSide& side = call.sources.side;
    const std::int64_t to = side.first(mine.item) + call.sources.numbers[mine.at];
    static_cast<Value*>(call.distance)[to] = kept.limit();
    call.index[to] = kept.last() == no_target ? -1 : kept.last();
    for (std::int64_t slice = 1; slice < call.slices; ++slice) call.index[slice * side.items.rows + to] = -1;
}

template <class Value, bool Squared, int C>
__global__ void __launch_bounds__(search_threads, 1) list_tree(const __grid_constant__ ListSearchArguments call) {
    using Point = HeldPoint<Value, C>;
    __shared__ WalkMemory<Point, Value> memory[search_threads / 32];
    const LaneSource mine = lane_source(call.sources, call.targets);
    if (mine.item < 0) return;
    KeptList<Value> kept(PointList<Value>(call.lists, mine.at, mine.is_source));
    TreeWalk<Value, Squared, C, KeptList<Value>> walk(call.targets, mine.item, memory[threadIdx.x / 32],
                                                      static_cast<const Point*>(call.sources.points)[mine.at], kept);
    walk.run();
    if (!mine.is_source) return;
    const PointSide& side = call.sources.side;
    kept.list().write(call.lists, mine.item, side.row(side.first(mine.item) + call.sources.numbers[mine.at]));
}

}  // namespace rowmax::cuda
