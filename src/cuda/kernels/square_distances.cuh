// Distances of every pair of points with any number of coordinates, in tiles of 64 sources and 64 targets.
//
//              16 coordinates at a time        a thread has 4 x 4 sums:
//   sources [16][64] ---+                        run    of 16 coordinates, in registers
//                       +--> 256 threads         block  of 16 runs
//   targets [16][64] ---+    (16 x 16)           total  of blocks
//
// 16 neighbouring threads share four sources.
#pragma once

#include "cuda/kernels/point_arguments.hpp"
#include "cuda/kernels/point_distance.cuh"
#include "cuda/kernels/stored_numbers.cuh"

namespace rowmax::cuda {

inline constexpr int side_of_thread = 4;
inline constexpr int threads_of_side = 16;
inline constexpr int square_threads = threads_of_side * threads_of_side;

/// Points side by side, `pitch` numbers apart.
template <class Value>
struct PointRows {
    const Value* data;
    std::int64_t pitch;
    std::int64_t count;
};

/// 16 coordinates of 64 points, [coordinate][point]; rows are padded against bank conflicts.
template <class Value>
struct CoordinateTile {
    alignas(32) Value at[dims_of_run][square_tile + 4];

    /// Points [begin, begin + 64), the last repeated; coordinates [k, k + depth).
    __device__ void load(const PointRows<Value>& rows, std::int64_t begin, std::int64_t k, int depth) {
        for (int i = threadIdx.x; i < square_tile * dims_of_run; i += square_threads) {
            const int coordinate = i % dims_of_run;
            const int point = i / dims_of_run;
            if (coordinate >= depth) continue;
            const std::int64_t row = begin + point < rows.count ? begin + point : rows.count - 1;
            at[coordinate][point] = rows.data[row * rows.pitch + k + coordinate];
        }
    }
    [[nodiscard]] __device__ Pack<Value, side_of_thread> four(int coordinate, int first) const {
        return *reinterpret_cast<const Pack<Value, side_of_thread>*>(&at[coordinate][first]);
    }
};

template <class Value>
struct SquareSums {
    Value at[side_of_thread][side_of_thread];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (auto& row : at) {
#pragma unroll
            for (Value& x : row) x = 0;
        }
    }
    __device__ __forceinline__ void join(const SquareSums& other) {
#pragma unroll
        for (int i = 0; i < side_of_thread; ++i) {
#pragma unroll
            for (int j = 0; j < side_of_thread; ++j) at[i][j] += other.at[i][j];
        }
    }
};

/// Where in a tile's square a thread's sums are.
struct PlaceInSquare {
    int row = static_cast<int>(threadIdx.x) / threads_of_side * side_of_thread;
    int column = static_cast<int>(threadIdx.x) % threads_of_side * side_of_thread;
};

/// By all threads of a block: the distances of sources from `first_source` on to targets from `first_target` on.
template <bool Squared, class Value>
__device__ __forceinline__ void square_distances(const PointRows<Value>& sources, std::int64_t first_source,
                                                 const PointRows<Value>& targets, std::int64_t first_target,
                                                 std::int64_t dim, SquareSums<Value>& total) {
    __shared__ CoordinateTile<Value> source_tile;
    __shared__ CoordinateTile<Value> target_tile;
    const PlaceInSquare place;
    SquareSums<Value> block;
    SquareSums<Value> run;
    total.clear();
    block.clear();
    int runs = 0;
    for (std::int64_t k = 0; k < dim; k += dims_of_run) {
        const int depth = static_cast<int>(dim - k < dims_of_run ? dim - k : dims_of_run);
        __syncthreads();
        source_tile.load(sources, first_source, k, depth);
        target_tile.load(targets, first_target, k, depth);
        __syncthreads();
        run.clear();
#pragma unroll 4
        for (int c = 0; c < depth; ++c) {
            const auto p = source_tile.four(c, place.row);
            const auto r = target_tile.four(c, place.column);
#pragma unroll
            for (int i = 0; i < side_of_thread; ++i) {
#pragma unroll
                for (int j = 0; j < side_of_thread; ++j) {
                    run.at[i][j] = add_term<Squared>(run.at[i][j], p.at[i], r.at[j]);
                }
            }
        }
        block.join(run);
        if (++runs == runs_of_block) {
            total.join(block);
            block.clear();
            runs = 0;
        }
    }
    if (runs > 0) total.join(block);
}

}  // namespace rowmax::cuda
