// The k nearest targets of every source: lists in scratch memory, a column a source, so that threads with
// neighbouring sources touch neighbouring numbers.
//
//   list_tiles   every pair, tile by tile (square_distances.cuh): 256 threads make distances, 64 of them offer those of
//                a source to its list
//   list_tree    by a tree over the targets (point_search.cuh)
#pragma once

#include "cuda/kernels/nearest_tiles.cuh"
#include "cuda/kernels/point_results.cuh"

namespace rowmax::cuda {

inline constexpr std::int32_t no_target = 0x7fffffff;

/// A heap, whose root is the last of the list: NaN comes first, then the nearer, then the lower number. Sorted in the
/// end.
template <class Value>
class PointList {
  public:
    /// `column` is the source's own; without one nothing enters the list, as if it held what is nearer than all.
    __device__ PointList(const ListArguments& call, std::int64_t column, bool has_source)
        : distance_(static_cast<Value*>(call.distance) + column),
          number_(call.numbers + column),
          stride_(call.sources.items.rows),
          k_(has_source ? static_cast<int>(call.k) : 0) {
        if (has_source) return;
        limit_.distance = -1;
        limit_.number = 0;
    }

    /// Nothing farther than that will be among the nearest.
    __device__ void cap(Value distance) {
        if (k_ > 0) limit_.distance = distance;
    }
    [[nodiscard]] __device__ int k() const { return k_; }

    /// The last of a full list; while there is room, the cap, or infinitely far.
    [[nodiscard]] __device__ Value limit() const { return limit_.distance; }
    [[nodiscard]] __device__ std::int32_t last() const { return limit_.number; }

    __device__ void offer(Value distance, std::int32_t number) {
        const Entry entry{distance, number};
        if (!before(entry, limit_)) return;
        if (count_ < k_) {
            rise(entry);
        } else {
            sink(entry, k_);
        }
        if (count_ == k_) limit_ = at(0);
    }

    /// To the results, as row `row` of the storage.
    __device__ void write(const ListArguments& call, std::int64_t item, std::int64_t row) {
        sort();
        const PointSide& targets = call.targets;
        for (int j = 0; j < count_; ++j) {
            const Entry entry = at(j);
            static_cast<Value*>(call.results)[row * k_ + j] = entry.distance;
            const std::int64_t target = targets.row(targets.first(item) + entry.number);
            if (call.index != nullptr) call.index[row * k_ + j] = target - targets.items.first(item);
        }
    }

  private:
    struct Entry {
        Value distance = infinite<Value>();
        std::int32_t number = no_target;
    };
    [[nodiscard]] __device__ static bool before(const Entry& a, const Entry& b) {
        return comes_first(a.distance, a.number, b.distance, b.number);
    }
    [[nodiscard]] __device__ Entry at(int place) const {
        return {distance_[place * stride_], number_[place * stride_]};
    }
    __device__ void put(int place, const Entry& entry) {
        distance_[place * stride_] = entry.distance;
        number_[place * stride_] = entry.number;
    }

    /// One more, from the bottom.
    __device__ void rise(const Entry& entry) {
        int place = count_++;
        while (place > 0) {
            const int above = (place - 1) / 2;
            const Entry other = at(above);
            if (!before(other, entry)) break;
            put(place, other);
            place = above;
        }
        put(place, entry);
    }

    /// In the place of the root, in a heap of `size`.
    __device__ void sink(const Entry& entry, int size) {
        int place = 0;
        for (int below = 1; below < size; below = 2 * place + 1) {
            Entry later = at(below);
            if (below + 1 < size) {
                const Entry other = at(below + 1);
                if (before(later, other)) {
                    later = other;
                    ++below;
                }
            }
            if (!before(entry, later)) break;
            put(place, later);
            place = below;
        }
        put(place, entry);
    }

    __device__ void sort() {
        for (int size = count_ - 1; size > 0; --size) {
            const Entry entry = at(size);
            put(size, at(0));
            sink(entry, size);
        }
    }

    Value* distance_;
    std::int32_t* number_;
    std::int64_t stride_;
    int k_;
    int count_ = 0;
    Entry limit_;
};

/// One thread a result: that there is none.
template <class Value>
__global__ void __launch_bounds__(point_threads) clear_lists(const __grid_constant__ ListArguments call) {
    const std::int64_t at = point_thread();
    if (at >= call.sources.items.rows * call.k) return;
    static_cast<Value*>(call.results)[at] = infinite<Value>();
    if (call.index != nullptr) call.index[at] = -1;
}

template <class Value, bool Squared>
__global__ void __launch_bounds__(square_threads) list_tiles(const __grid_constant__ ListArguments call) {
    constexpr int half = square_tile / 2;
    __shared__ Value square[square_tile][half + 1];
    const PointTile here = tile_at(call.sources, call.sources.items.count, blockIdx.x, square_tile);
    const auto sources = rows_of_item<Value>(call.sources, here.item);
    if (here.begin >= sources.count || call.done(here.item)) return;
    const auto targets = rows_of_item<Value>(call.targets, here.item);
    const PlaceInSquare place;
    const std::int64_t mine = here.begin + threadIdx.x;
    const bool offers = threadIdx.x < square_tile && mine < sources.count;
    const std::int64_t column = call.sources.first(here.item) + mine;
    PointList<Value> list(call, offers ? column : 0, offers);
    for (std::int64_t begin = 0; begin < targets.count; begin += square_tile) {
        SquareSums<Value> distance;
        square_distances<Squared>(sources, here.begin, targets, begin, call.dim, distance);
        // Half of the targets at a time.
        for (int first = 0; first < square_tile; first += half) {
            if (place.column / half == first / half) {
#pragma unroll
                for (int i = 0; i < side_of_thread; ++i) {
#pragma unroll
                    for (int j = 0; j < side_of_thread; ++j) {
                        square[place.row + i][place.column % half + j] = distance.at[i][j];
                    }
                }
            }
            __syncthreads();
            const std::int64_t left = targets.count - begin - first;
            for (int t = 0; offers && t < half && t < left; ++t) {
                list.offer(square[threadIdx.x][t], static_cast<std::int32_t>(begin) + first + t);
            }
            __syncthreads();
        }
    }
    if (offers) list.write(call, here.item, call.sources.row(column));
}

}  // namespace rowmax::cuda
