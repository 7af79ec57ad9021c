// The fold of similarities into the maxima of rows by integers: floats that are not negative compare as integers do, of
// which Hopper finds the largest of three in one instruction.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/products.cuh"

namespace rowmax::cuda {

/// The NaN that matrix instructions and multiplications give: the largest integer, so it needs no case of its own.
__device__ __forceinline__ float largest_nan() {
    return __int_as_float(0x7fffffff);
}

/// Maxima of two rows in each of the four lanes that share them, as the fold leaves them: of the first in even lanes,
/// of the second in the others. Tokens are those of Maximum, all or none of a row's lanes have one.
__device__ __forceinline__ Maximum<false> join_lanes(const Maximum<false> (&best)[2]) {
    const bool first = threadIdx.x % 2 == 0;
    Maximum<false> mine = choose(first, best[0], best[1]);
    join(mine, exchange(choose(first, best[1], best[0]), 1));
    join(mine, exchange(mine, 2));
    return mine;
}
/// A maximum and its token travel as one number.
__device__ __forceinline__ Maximum<true> join_lanes(const Maximum<true> (&best)[2]) {
    const auto larger = [](std::int64_t a, std::int64_t b) { return a > b ? a : b; };
    const bool first = threadIdx.x % 2 == 0;
    const std::int64_t other = exchange(rank(choose(first, best[1], best[0])), 1);
    std::int64_t mine = larger(rank(choose(first, best[0], best[1])), other);
    mine = larger(mine, exchange(mine, 2));
    return {__int_as_float(flip(static_cast<int>(mine >> 32))), ~static_cast<std::int32_t>(mine)};
}

inline constexpr int least_integer = -2147483647 - 1;

/// Columns that are not kept become the least there is, in place: there are no registers for them elsewhere. `keep`: as
/// for Fold; `full`: bit b: box b is kept whole.
template <int Columns, class Value>
class HiddenColumns {
  public:
    __device__ __forceinline__ static void hide(Products<Columns, Value>& products, const std::uint32_t* keep,
                                                std::uint32_t full, Value least) {
        constexpr int boxes = Columns / 32;
        constexpr std::uint32_t before_last = (1U << (boxes - 1)) - 1U;
        if (full == 2 * before_last + 1) return;
        if ((full & before_last) != before_last) {
#pragma unroll
            for (int box = 0; box < boxes - 1; ++box) hide_box(products, box, keep[box], least);
        }
        hide_box(products, boxes - 1, keep[boxes - 1], least);
    }

  private:
    __device__ __forceinline__ static void hide_box(Products<Columns, Value>& products, int box, std::uint32_t keep,
                                                    Value least) {
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            const bool kept = (keep >> offset_of(c) & 1U) != 0;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                Value& x = products.at(r, box * 8 + c);
                x = kept ? x : least;
            }
        }
    }
};

/// Folds a tile of Columns tokens into the maxima of two rows: see Fold, which does the same by floats. Where a row has
/// nothing above zero so far, the tile is folded once more, by numbers that are in order below zero too: rows that do
/// not count should start with NaN, so that they never are the reason.
template <bool Indexed, int Columns>
class IntegerFold {
  public:
    __device__ __forceinline__ IntegerFold(Maximum<Indexed> (&best)[2], Products<Columns>& products)
        : best_(best), products_(products) {}

    /// `base`: the token of this thread's first column.
    __device__ __forceinline__ void tile(int base) {
        int before[2];
        int now[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) before[r] = now[r] = __float_as_int(best_[r].value);
        columns(now);
        // Asked of the whole warp: lanes that went apart would cost all that follows its uniform registers.
        if (ballot(now[0] <= 0 || now[1] <= 0) != 0) [[unlikely]] {
#pragma unroll
            for (int r = 0; r < 2; ++r) before[r] = now[r] = in_order(best_[r].value);
#pragma unroll
            for (float& x : products_.value) x = __int_as_float(in_order(x));
            columns(now);
            keep_winners(before, now, base);
#pragma unroll
            for (int r = 0; r < 2; ++r) best_[r].value = __int_as_float(flip(now[r]));
        } else {
            keep_winners(before, now, base);
#pragma unroll
            for (int r = 0; r < 2; ++r) best_[r].value = __int_as_float(now[r]);
        }
    }

    __device__ __forceinline__ void hide(const std::uint32_t* keep, std::uint32_t full) {
        HiddenColumns<Columns, float>::hide(products_, keep, full, minus_infinity);
    }

  private:
    /// Columns 4k .. 4k + 3 of a row, at offsets 16 k + 0, 1, 8, 9: the last that had something better. Which of them
    /// it was is told by the first three.
    struct Four {
        int offset = 0;  ///< 16 k
        int a = 0;
        int b = 0;
        int c = 0;
        [[nodiscard]] __device__ __forceinline__ int place_of(int maximum) const {
            int place = offset + 9;
            if (c == maximum) place = offset + 8;
            if (b == maximum) place = offset + 1;
            if (a == maximum) place = offset;
            return place;
        }
    };

    __device__ __forceinline__ void columns(int (&now)[2]) {
#pragma unroll
        for (int k = 0; k < Columns / 16; ++k) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                int x[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) x[j] = __float_as_int(products_.at(r, 4 * k + j));
                if constexpr (Indexed) {
                    const int larger = __vimax3_s32(__vimax3_s32(x[0], x[1], x[2]), x[3], now[r]);
                    if (larger != now[r]) winner_[r] = {16 * k, x[0], x[1], x[2]};
                    now[r] = larger;
                } else {
                    now[r] = __vimax3_s32(__vimax3_s32(now[r], x[0], x[1]), x[2], x[3]);
                }
            }
        }
    }

    __device__ __forceinline__ void keep_winners(const int (&before)[2], const int (&now)[2], int base) {
        if constexpr (Indexed) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                if (now[r] != before[r]) best_[r].token = base + winner_[r].place_of(now[r]);
            }
        }
    }

    Maximum<Indexed> (&best_)[2];
    Products<Columns>& products_;
    Four winner_[2];
};

/// The same of sums that are integers. The bits of the maximum's value are one too.
template <int Columns>
class SumFold {
  public:
    __device__ __forceinline__ SumFold(Maximum<false> (&best)[2], Products<Columns, int>& sums)
        : best_(best), sums_(sums) {}

    __device__ __forceinline__ void tile(int) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            int now = __float_as_int(best_[r].value);
#pragma unroll
            for (int c = 0; c < Columns / 4; c += 2) now = __vimax3_s32(now, sums_.at(r, c), sums_.at(r, c + 1));
            best_[r].value = __int_as_float(now);
        }
    }

    __device__ __forceinline__ void hide(const std::uint32_t* keep, std::uint32_t full) {
        HiddenColumns<Columns, int>::hide(sums_, keep, full, least_integer);
    }

  private:
    Maximum<false> (&best_)[2];
    Products<Columns, int>& sums_;
};

/// How a tile of these values is folded.
template <bool Indexed, int Columns, class Value>
using FoldOf = std::conditional_t<std::is_same_v<Value, int>, SumFold<Columns>, IntegerFold<Indexed, Columns>>;

}  // namespace rowmax::cuda
