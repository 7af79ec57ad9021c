// Similarities as matrix instructions leave them, and their fold into the maxima of rows.
#pragma once

#include <cstdint>

#include "cuda/kernels/maximum.cuh"

namespace rowmax::cuda {

/// This warp's 16 rows by Columns tokens: a thread holds, for every 8 columns, two columns of each of its two rows.
template <int Columns, class Value = float>
struct Products {
    Value value[Columns / 2];
    [[nodiscard]] __device__ __forceinline__ Value at(int row, int column) const {
        return value[column / 2 * 4 + row * 2 + column % 2];
    }
    [[nodiscard]] __device__ __forceinline__ Value& at(int row, int column) {
        return value[column / 2 * 4 + row * 2 + column % 2];
    }
};

/// Columns that a thread holds of each row are 2 (lane % 4) + offset_of(c).
constexpr int offset_of(int c) {
    return c / 2 * 8 + c % 2;
}

/// Folds tiles of Columns tokens into the maxima of 2 x RowTiles rows, all rows side by side, 32 tokens at a time.
/// `keep`: the tile's bits, moved so that bit offset_of(c) stands for this thread's column c; `full`: bit b: box b is
/// kept whole.
template <bool Indexed>
class Fold;

template <>
class Fold<false> {
  public:
    template <int RowTiles, int Columns>
    __device__ __forceinline__ static void tile(Maximum<false> (&best)[RowTiles][2],
                                                const Products<Columns> (&products)[RowTiles],
                                                const std::uint32_t* keep, std::uint32_t full, int) {
        constexpr int boxes = Columns / 32;
        constexpr std::uint32_t before_last = (1U << (boxes - 1)) - 1U;
        // Three pieces of straight code, since branches among them cost more than instructions: the usual tile, a
        // document's last one, and one with holes.
        if (full == 2 * before_last + 1) {
            fold_boxes<true, true>(best, products, keep);
        } else if ((full & before_last) == before_last) {
            fold_boxes<true, false>(best, products, keep);
        } else {
            fold_boxes<false, false>(best, products, keep);
        }
    }

  private:
    template <bool First, bool Last, int RowTiles, int Columns>
    __device__ __forceinline__ static void fold_boxes(Maximum<false> (&best)[RowTiles][2],
                                                      const Products<Columns> (&products)[RowTiles],
                                                      const std::uint32_t* keep) {
#pragma unroll
        for (int box = 0; box < Columns / 32 - 1; ++box) fold_box<First>(best, products, box, keep[box]);
        fold_box<Last>(best, products, Columns / 32 - 1, keep[Columns / 32 - 1]);
    }

    template <bool All, int RowTiles, int Columns>
    __device__ __forceinline__ static void fold_box(Maximum<false> (&best)[RowTiles][2],
                                                    const Products<Columns> (&products)[RowTiles], int box,
                                                    std::uint32_t keep) {
#pragma unroll
        for (int c = 0; c < 8; c += 2) {
            const bool a = All || (keep >> offset_of(c) & 1U) != 0;
            const bool b = All || (keep >> offset_of(c + 1) & 1U) != 0;
#pragma unroll
            for (int i = 0; i < 2 * RowTiles; ++i) {
                const float x = a ? products[i / 2].at(i % 2, box * 8 + c) : minus_infinity;
                const float y = b ? products[i / 2].at(i % 2, box * 8 + c + 1) : minus_infinity;
                best[i / 2][i % 2].value = max_or_nan(best[i / 2][i % 2].value, max_or_nan(x, y));
            }
        }
    }
};

/// With the winning token: columns are compared with the best so far four at a time, and of the last four that were
/// better enough is remembered to tell, at the tile's end, which of them it was: 9 instructions for 4 columns instead
/// of 12.
template <>
class Fold<true> {
  public:
    template <int RowTiles, int Columns>
    __device__ __forceinline__ static void tile(Maximum<true> (&best)[RowTiles][2],
                                                const Products<Columns> (&products)[RowTiles],
                                                const std::uint32_t* keep, std::uint32_t full, int base) {
        Four winner[RowTiles][2];
        float before[RowTiles][2];
#pragma unroll
        for (int i = 0; i < 2 * RowTiles; ++i) before[i / 2][i % 2] = best[i / 2][i % 2].value;
        constexpr int boxes = Columns / 32;
        constexpr std::uint32_t before_last = (1U << (boxes - 1)) - 1U;
        if (full == 2 * before_last + 1) {
            fold_boxes<true, true>(best, winner, products, keep);
        } else if ((full & before_last) == before_last) {
            fold_boxes<true, false>(best, winner, products, keep);
        } else {
            fold_boxes<false, false>(best, winner, products, keep);
        }
        bool nan = false;
#pragma unroll
        for (int i = 0; i < 2 * RowTiles; ++i) {
            Maximum<true>& row = best[i / 2][i % 2];
            const Four& four = winner[i / 2][i % 2];
            const int token = base + four.offset + four.place_of(row.value);
            row.token = row.value > before[i / 2][i % 2] ? token : row.token;
            nan = nan || is_nan(row.value);
        }
        if (nan) [[unlikely]]
            find_nans(best, before, products, keep, base);
    }

  private:
    /// Columns 4k .. 4k + 3 of a row: at offsets 16 k + 0, 1, 8, 9.
    struct Four {
        int offset = 0;  ///< 16 k
        float a = 0;
        float a_or_b = 0;
        float c = 0;
        [[nodiscard]] __device__ __forceinline__ int place_of(float maximum) const {
            const bool first_two = a_or_b == maximum;
            const bool even = (first_two ? a : c) == maximum;
            return (first_two ? 0 : 8) + (even ? 0 : 1);
        }
    };

    __device__ __forceinline__ static bool is_nan(float x) {
        return x != x;
    }

    template <bool First, bool Last, int RowTiles, int Columns>
    __device__ __forceinline__ static void fold_boxes(Maximum<true> (&best)[RowTiles][2], Four (&winner)[RowTiles][2],
                                                      const Products<Columns> (&products)[RowTiles],
                                                      const std::uint32_t* keep) {
#pragma unroll
        for (int box = 0; box < Columns / 32 - 1; ++box) fold_box<First>(best, winner, products, box, keep[box]);
        fold_box<Last>(best, winner, products, Columns / 32 - 1, keep[Columns / 32 - 1]);
    }

    template <bool All, int RowTiles, int Columns>
    __device__ __forceinline__ static void fold_box(Maximum<true> (&best)[RowTiles][2], Four (&winner)[RowTiles][2],
                                                    const Products<Columns> (&products)[RowTiles], int box,
                                                    std::uint32_t keep) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            bool kept[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) kept[j] = All || (keep >> offset_of(4 * k + j) & 1U) != 0;
#pragma unroll
            for (int i = 0; i < 2 * RowTiles; ++i) {
                Maximum<true>& row = best[i / 2][i % 2];
                Four& four = winner[i / 2][i % 2];
                float x[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    x[j] = kept[j] ? products[i / 2].at(i % 2, box * 8 + 4 * k + j) : minus_infinity;
                }
                const float a_or_b = max_or_nan(x[0], x[1]);
                const float any = max_or_nan(a_or_b, max_or_nan(x[2], x[3]));
                if (any > row.value) {
                    four.offset = 32 * box + 16 * k;
                    four.a = x[0];
                    four.a_or_b = a_or_b;
                    four.c = x[2];
                }
                row.value = max_or_nan(row.value, any);
            }
        }
    }

    /// The first NaN of a row wins, and nothing after it. Rare, so it should be short: it lies between tiles.
    template <int RowTiles, int Columns>
    __device__ __forceinline__ static void find_nans(Maximum<true> (&best)[RowTiles][2],
                                                     const float (&before)[RowTiles][2],
                                                     const Products<Columns> (&products)[RowTiles],
                                                     const std::uint32_t* keep, int base) {
        std::uint32_t kept = 0;
#pragma unroll
        for (int box = 0; box < Columns / 32; ++box) kept |= columns_of(keep[box]) << (8 * box);
#pragma unroll
        for (int i = 0; i < 2 * RowTiles; ++i) {
            Maximum<true>& row = best[i / 2][i % 2];
            std::uint32_t nans = 0;
#pragma unroll
            for (int c = 0; c < Columns / 4; ++c) nans |= is_nan(products[i / 2].at(i % 2, c)) ? 1U << c : 0U;
            const int first = __ffs(static_cast<int>(nans & kept)) - 1;
            const bool here = is_nan(row.value) && !is_nan(before[i / 2][i % 2]);
            row.token = here ? base + offset_of(first) : row.token;
        }
    }

    /// The bits of a box's columns that stand for this thread's, next to each other.
    __device__ __forceinline__ static std::uint32_t columns_of(std::uint32_t keep) {
        return (keep & 0x03U) | (keep >> 6 & 0x0cU) | (keep >> 12 & 0x30U) | (keep >> 18 & 0xc0U);
    }
};

}  // namespace rowmax::cuda
