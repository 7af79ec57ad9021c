// Maxima of columns: what kernels keep that put document tokens on the matrix unit's long side and query rows on the
// other.
#pragma once

#include <cstdint>

#include "cuda/kernels/maximum.cuh"

namespace rowmax::cuda {

/// Of a warp's 16 tokens a tile and Columns query rows: a thread holds two tokens (l / 4, and that + 8) of two
/// neighbouring columns of every 8, and folds them into the maxima of these columns.
template <int Columns, bool Indexed>
class ColumnMaxima {
  public:
    /// At a unit's begin.
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int c = 0; c < columns_of_thread; ++c) best_[c] = {};
    }
    /// With the unit's first kept token, before its first fold.
    __device__ __forceinline__ void start(int token) {
        if constexpr (Indexed) {
#pragma unroll
            for (int c = 0; c < columns_of_thread; ++c) best_[c].token = token;
        }
    }

    /// `keep`: bits of this warp's 16 tokens. `token`: the first of this thread's two.
    __device__ __forceinline__ void fold(const float (&sums)[Columns / 2], std::uint32_t keep, int token) {
        if (keep == 0xffffU) {
#pragma unroll
            for (int c = 0; c < columns_of_thread; ++c) {
                take_two(best_[c], sums[c / 2 * 4 + c % 2], sums[c / 2 * 4 + c % 2 + 2], token);
            }
            return;
        }
        const bool keeps_a = (keep >> (lane() / 4) & 1U) != 0;
        const bool keeps_b = (keep >> (lane() / 4 + 8) & 1U) != 0;
#pragma unroll
        for (int c = 0; c < columns_of_thread; ++c) {
            const float a = keeps_a ? sums[c / 2 * 4 + c % 2] : minus_infinity;
            const float b = keeps_b ? sums[c / 2 * 4 + c % 2 + 2] : minus_infinity;
            take_two(best_[c], a, b, token);
        }
    }

    /// The warp's maxima, by column.
    __device__ __forceinline__ void leave_in(Maximum<Indexed> (&maxima)[Columns]) {
        int first = 0;
        reduce_step<columns_of_thread, 16>(first);
        reduce_step<columns_of_thread / 2, 8>(first);
        reduce_step<columns_of_thread / 4, 4>(first);
#pragma unroll
        for (int i = 0; i < columns_of_thread / 8; ++i) {
            const int c = first + i;
            maxima[c / 2 * 8 + 2 * (lane() % 4) + c % 2] = best_[i];
        }
    }

  private:
    static constexpr int columns_of_thread = Columns / 4;

    __device__ __forceinline__ static int lane() {
        return static_cast<int>(threadIdx.x % 32);
    }

    /// Halves the columns that a thread holds: the lanes `Distance` apart take one half each.
    template <int Count, int Distance>
    __device__ __forceinline__ void reduce_step(int& first) {
        const bool upper = (lane() & Distance) != 0;
#pragma unroll
        for (int c = 0; c < Count / 2; ++c) {
            const Maximum<Indexed> low = best_[c];
            const Maximum<Indexed> high = best_[c + Count / 2];
            best_[c] = choose(upper, high, low);
            join(best_[c], exchange(choose(upper, low, high), Distance));
        }
        if (upper) first += Count / 2;
    }

    Maximum<Indexed> best_[columns_of_thread];
};

}  // namespace rowmax::cuda
