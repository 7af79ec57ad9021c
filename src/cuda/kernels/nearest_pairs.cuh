// Every pair of points with many coordinates, once for both directions: the nearest of every source and of every
// target.
//
//   a block      256 threads: 128 sources of one item against one slice of its targets, 64 at a time
//   a thread     (x, y) of 16 x 16: distances of sources y + 16 i to targets x + 16 j, 8 x 4 of them
//   coordinates  16 at a time of all 192 points, copied behind the arithmetic into the other of two stages
//
//     run    of 16 coordinates  --\
//     block  of 16 runs            >  in registers, added as the definition says (point_distance.cuh)
//     total  of blocks          --/   with up to 256 coordinates there is one block, and no total
//
// Nearest are kept as keys: the distance's bits above the target's number, so that the least key is the nearest target,
// and the lowest among equals. A source's keys stay in shared memory, a column a thread, until the slice is done; a
// target's are brought together after every tile. Both end in atomic minima, which no order changes.
#pragma once

#include "cuda/kernels/nearest_tiles.cuh"
#include "cuda/kernels/point_arguments.hpp"
#include "cuda/kernels/point_distance.cuh"
#include "cuda/kernels/stored_numbers.cuh"
#include "cuda/prim/copy_async.cuh"

namespace rowmax::cuda {

/// Distances are not negative, and NaN is the canonical one that arithmetic gives here: it comes first.
__device__ __forceinline__ std::uint32_t distance_key(float distance) {
    return __float_as_uint(distance) + first_distance_key;
}

/// 16 coordinates of 128 sources and 64 targets; rows are padded against bank conflicts.
struct PairStage {
    static constexpr int pitch = dims_of_run + 4;
    float sources[pair_sources][pitch];
    float targets[pair_targets][pitch];
};

/// What a block works on; out of registers, which the sums need.
struct PairBlock {
    const float* sources;
    const float* targets;
    unsigned long long* of_targets;
    int first_source;
    int source_count;
    int target_count;
    int end;  ///< of the slice
};

struct PairMemory {
    PairStage stages[2];
    unsigned long long of_sources[pair_rows][pair_threads];
    unsigned long long of_targets[pair_threads / 32][pair_targets];
    PairBlock block;
};
static_assert(sizeof(PairMemory) <= pair_shared_bytes);

/// Starts to copy coordinates [k, k + 16) of `Points` points; those beyond the last are the last again, coordinates
/// beyond `dim` zeros. Rows are a multiple of four numbers apart.
template <int Points>
__device__ __forceinline__ void copy_coordinates(float (&to)[Points][PairStage::pitch], const float* rows,
                                                 std::int64_t pitch, int begin, int count, int k, int dim) {
    constexpr int chunks = dims_of_run / 4;
    const int at = k + static_cast<int>(threadIdx.x) % chunks * 4;
    const int last = count - 1;
#pragma unroll
    for (int i = 0; i < Points * chunks / pair_threads; ++i) {
        const int point = static_cast<int>(threadIdx.x) / chunks + i * (pair_threads / chunks);
        const int row = begin + point < last ? begin + point : last;
        copy_up_to_16_bytes(shared_address(&to[point][threadIdx.x % chunks * 4]),
                            rows + row * pitch + (at < dim ? at : 0), at < dim ? 16 : 0);
    }
}

struct PairSums {
    float at[pair_rows][pair_columns];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (auto& row : at) {
#pragma unroll
            for (float& x : row) x = 0;
        }
    }
    __device__ __forceinline__ void join(const PairSums& other) {
#pragma unroll
        for (int i = 0; i < pair_rows; ++i) {
#pragma unroll
            for (int j = 0; j < pair_columns; ++j) at[i][j] += other.at[i][j];
        }
    }
};

/// The run of a stage's coordinates.
template <bool Squared>
__device__ __forceinline__ void add_run(const PairStage& stage, int x, int y, PairSums& run) {
    using Four = Pack<float, 4>;
    run.clear();
#pragma unroll
    for (int c = 0; c < dims_of_run; c += 4) {
        Four r[pair_columns];
#pragma unroll
        for (int j = 0; j < pair_columns; ++j) r[j] = *reinterpret_cast<const Four*>(&stage.targets[x + 16 * j][c]);
#pragma unroll
        for (int i = 0; i < pair_rows; ++i) {
            const Four p = *reinterpret_cast<const Four*>(&stage.sources[y + 16 * i][c]);
#pragma unroll
            for (int v = 0; v < 4; ++v) {
#pragma unroll
                for (int j = 0; j < pair_columns; ++j) {
                    run.at[i][j] = add_term<Squared>(run.at[i][j], p.at[v], r[j].at[v]);
                }
            }
        }
    }
}

__device__ __forceinline__ unsigned long long nearest_key(std::uint32_t distance, int number) {
    return (static_cast<unsigned long long>(distance) << 32) | static_cast<std::uint32_t>(number);
}
__device__ __forceinline__ void offer(unsigned long long* best, unsigned long long key) {
    if (key < *best) atomicMin(best, key);
}

/// A tile's distances into the keys of its sources and, where wanted, of its targets.
__device__ __forceinline__ void keep_nearest(const PairSums& distance, PairMemory& memory, int x, int y,
                                             int first_target) {
    const PairBlock block = memory.block;
    std::uint32_t key[pair_rows][pair_columns];
#pragma unroll
    for (int i = 0; i < pair_rows; ++i) {
        std::uint32_t least = no_distance_key;
        int which = 0;
#pragma unroll
        for (int j = 0; j < pair_columns; ++j) {
            const bool inside =
                first_target + x + 16 * j < block.end && block.first_source + y + 16 * i < block.source_count;
            key[i][j] = inside ? distance_key(distance.at[i][j]) : no_distance_key;
            if (key[i][j] >= least) continue;
            least = key[i][j];
            which = j;
        }
        unsigned long long& best = memory.of_sources[i][threadIdx.x];
        const unsigned long long mine = nearest_key(least, first_target + x + 16 * which);
        if (least != no_distance_key && mine < best) best = mine;
    }
    if (block.of_targets == nullptr) return;
#pragma unroll
    for (int j = 0; j < pair_columns; ++j) {
        std::uint32_t least = no_distance_key;
        int which = 0;
#pragma unroll
        for (int i = 0; i < pair_rows; ++i) {
            if (key[i][j] >= least) continue;
            least = key[i][j];
            which = i;
        }
        unsigned long long mine = nearest_key(least, block.first_source + y + 16 * which);
        const unsigned long long other = exchange(mine, 16);
        if (other < mine) mine = other;
        if (threadIdx.x % 32 < 16) memory.of_targets[threadIdx.x / 32][x + 16 * j] = mine;
    }
    __syncthreads();
    if (threadIdx.x >= pair_targets || first_target + static_cast<int>(threadIdx.x) >= block.end) return;
    unsigned long long best = memory.of_targets[0][threadIdx.x];
#pragma unroll
    for (int warp = 1; warp < pair_threads / 32; ++warp) {
        const unsigned long long other = memory.of_targets[warp][threadIdx.x];
        if (other < best) best = other;
    }
    offer(block.of_targets + first_target + threadIdx.x, best);
}

/// `Long`: more than 256 coordinates.
template <bool Squared, bool Long>
__global__ void __launch_bounds__(pair_threads, Long ? 1 : 2)
    nearest_pairs(const __grid_constant__ PairArguments call) {
    extern __shared__ __align__(16) std::byte shared_memory[];
    PairMemory& memory = *reinterpret_cast<PairMemory*>(shared_memory);
    const std::int64_t slice = blockIdx.x / call.tiles;
    const PointTile here = tile_at(call.sources, call.sources.items.count, blockIdx.x % call.tiles, pair_sources);
    const auto sources = rows_of_item<float>(call.sources, here.item);
    if (here.begin >= sources.count) return;
    const auto targets = rows_of_item<float>(call.targets, here.item);
    const TargetSlice range = slice_of(targets.count, slice, call.slices);
    if (range.begin >= range.end) return;
    const int x = static_cast<int>(threadIdx.x) % 16;
    const int y = static_cast<int>(threadIdx.x) / 16;
    if (threadIdx.x == 0) {
        memory.block = {sources.data,
                        targets.data,
                        call.of_targets == nullptr ? nullptr : call.of_targets + call.targets.first(here.item),
                        static_cast<int>(here.begin),
                        static_cast<int>(sources.count),
                        static_cast<int>(targets.count),
                        static_cast<int>(range.end)};
    }
#pragma unroll
    for (int i = 0; i < pair_rows; ++i) memory.of_sources[i][threadIdx.x] = ~0ULL;
    __syncthreads();

    const int dim = static_cast<int>(call.dim);
    const auto copy = [&](int stage, int target, int k) {
        const PairBlock& block = memory.block;
        if (target < block.end) {
            PairStage& to = memory.stages[stage];
            copy_coordinates(to.sources, block.sources, call.sources.pitch, block.first_source, block.source_count, k,
                             dim);
            copy_coordinates(to.targets, block.targets, call.targets.pitch, target, block.target_count, k, dim);
        }
        close_copy_group();
    };
    copy(0, static_cast<int>(range.begin), 0);
    int stage = 0;
    for (int target = static_cast<int>(range.begin); target < memory.block.end; target += pair_targets) {
        PairSums total;
        PairSums block;
        if constexpr (Long) total.clear();
        block.clear();
        for (int k = 0; k < dim; k += dims_of_run) {
            const bool last = k + dims_of_run >= dim;
            copy(1 - stage, last ? target + pair_targets : target, last ? 0 : k + dims_of_run);
            wait_copy_groups<1>();
            __syncthreads();
            PairSums run;
            add_run<Squared>(memory.stages[stage], x, y, run);
            block.join(run);
            if constexpr (Long) {
                if (last || (k / dims_of_run + 1) % runs_of_block == 0) {
                    total.join(block);
                    block.clear();
                }
            }
            __syncthreads();
            stage = 1 - stage;
        }
        keep_nearest(Long ? total : block, memory, x, y, target);
    }

    const std::int64_t first = call.sources.first(here.item);
#pragma unroll
    for (int i = 0; i < pair_rows; ++i) {
        unsigned long long best = memory.of_sources[i][threadIdx.x];
#pragma unroll
        for (int step = 8; step > 0; step /= 2) {
            const unsigned long long other = exchange(best, step);
            if (other < best) best = other;
        }
        const int source = memory.block.first_source + y + 16 * i;
        if (x == 0 && source < memory.block.source_count) offer(call.of_sources + first + source, best);
    }
}

}  // namespace rowmax::cuda
