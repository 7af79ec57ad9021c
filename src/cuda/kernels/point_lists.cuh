// The k nearest targets of every source: sorted lists in scratch memory, a column a source, so that threads with
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

/// NaN first, then ascending; the lowest number among equals.
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
        limit_ = -1;
        last_ = 0;
    }

    /// The last of a full list; while there is room, infinitely far.
    [[nodiscard]] __device__ Value limit() const { return limit_; }
    [[nodiscard]] __device__ std::int32_t last() const { return last_; }
    [[nodiscard]] __device__ int count() const { return count_; }

    __device__ void offer(Value distance, std::int32_t number) {
        const bool full = count_ == k_;
        if (full && !comes_first(distance, number, limit_, last_)) return;
        int at = full ? k_ - 1 : count_++;
        for (; at > 0; --at) {
            const Value before = distance_[(at - 1) * stride_];
            const std::int32_t whose = number_[(at - 1) * stride_];
            if (!comes_first(distance, number, before, whose)) break;
            distance_[at * stride_] = before;
            number_[at * stride_] = whose;
        }
        distance_[at * stride_] = distance;
        number_[at * stride_] = number;
        if (count_ < k_) return;
        limit_ = distance_[(k_ - 1) * stride_];
        last_ = number_[(k_ - 1) * stride_];
    }

    /// To the results, as row `row` of the storage.
    __device__ void write(const ListArguments& call, std::int64_t item, std::int64_t row) const {
        const PointSide& targets = call.targets;
        for (int j = 0; j < count_; ++j) {
            static_cast<Value*>(call.results)[row * k_ + j] = distance_[j * stride_];
            const std::int64_t target = targets.row(targets.first(item) + number_[j * stride_]);
            if (call.index != nullptr) call.index[row * k_ + j] = target - targets.items.first(item);
        }
    }

  private:
    Value* distance_;
    std::int32_t* number_;
    std::int64_t stride_;
    int k_;
    int count_ = 0;
    Value limit_ = infinite<Value>();
    std::int32_t last_ = no_target;
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
