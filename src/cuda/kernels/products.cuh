// Similarities as matrix instructions leave them, and their fold into the maxima of rows.
#pragma once

#include <cstdint>

#include "cuda/kernels/maximum.cuh"

namespace rowmax::cuda {

/// This warp's 16 rows by Columns tokens: a thread holds, for every 8 columns, two columns of each of its two rows.
template <int Columns>
struct Products {
    float value[Columns / 2];
    [[nodiscard]] __device__ __forceinline__ float at(int row, int column) const {
        return value[column / 2 * 4 + row * 2 + column % 2];
    }
};

/// Columns that a thread holds of each row are 2 (lane % 4) + offset_of(c).
constexpr int offset_of(int c) {
    return c / 2 * 8 + c % 2;
}

/// Folds one row of products. `keep`: the tile's bits, moved so that bit offset_of(c) stands for column c; `base`: the
/// token of column 0.
template <int Columns, bool All>
__device__ __forceinline__ void fold_row(Maximum<false>& best, const Products<Columns>& products, int row,
                                         const std::uint32_t* keep, int) {
    const auto product = [&](int c) {
        if constexpr (All) return products.at(row, c);
        return (keep[c / 8] >> offset_of(c % 8) & 1U) != 0 ? products.at(row, c) : minus_infinity;
    };
#pragma unroll
    for (int c = 0; c < Columns / 4; c += 2)
        best.value = max_or_nan(best.value, max_or_nan(product(c), product(c + 1)));
}

template <int Columns, bool All>
__device__ __forceinline__ void fold_row(Maximum<true>& best, const Products<Columns>& products, int row,
                                         const std::uint32_t* keep, int base) {
    const auto product = [&](int c) {
        if constexpr (All) return products.at(row, c);
        return (keep[c / 8] >> offset_of(c % 8) & 1U) != 0 ? products.at(row, c) : minus_infinity;
    };
    const bool was_nan = best.value != best.value;
    int winner = -1;
#pragma unroll
    for (int c = 0; c < Columns / 4; ++c) {
        const float s = product(c);
        if (s > best.value) winner = offset_of(c);
        best.value = max_or_nan(best.value, s);
    }
    if (best.value != best.value) {
        // Rare: the first NaN is the winner, and nothing after it.
        if (was_nan) return;
#pragma unroll
        for (int c = Columns / 4 - 1; c >= 0; --c) {
            if (product(c) != product(c)) winner = offset_of(c);
        }
    }
    if (winner >= 0) best.token = base + winner;
}

}  // namespace rowmax::cuda
