// What the backward pass reads of the forward pass: the winning tokens.
#pragma once

#include "cuda/kernels/backward_arguments.hpp"

namespace rowmax::cuda {

/// The winning token of a pair's query token, -1 for none; `at` counts elements of the index.
__device__ __forceinline__ std::int64_t winner(const core::Gradients& gradients, std::int64_t at) {
    if (!gradients.narrow) return gradients.index[at];
    const std::uint16_t token = reinterpret_cast<const std::uint16_t*>(gradients.index)[at];
    return token == core::no_token_narrow ? -1 : token;
}

/// Where a storage row of a side lies.
__device__ __forceinline__ const std::byte* storage_row(const core::Segments& side, std::int64_t row) {
    if (side.kind != core::SegmentKind::strided) return side.data + row * side.row_stride;
    const std::int64_t item = core::detail::quotient(row, side.length);
    return side.at(item).data + (row - item * side.length) * side.row_stride;
}

/// A token of an item; item -1: no item.
struct TokenPlace {
    std::int64_t item = -1;
    std::int64_t token = 0;
};

/// Whose token a row of the storage is, for items that share no rows.
__device__ __forceinline__ TokenPlace place_of_row(const core::Segments& side, std::int64_t row) {
    if (side.kind == core::SegmentKind::strided) {
        const std::int64_t item = core::detail::quotient(row, side.length);
        return {item, row - item * side.length};
    }
    std::int64_t low = 0;  // starts before `low` are at most `row`
    std::int64_t high = side.count;
    while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (core::detail::read_int(side.starts, side.wide_starts, middle) <= row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) return {};
    const core::Segment segment = side.at(low - 1);
    const std::int64_t token = row - segment.first_row;
    if (token < 0 || token >= segment.length) return {};
    return {low - 1, token};
}

}  // namespace rowmax::cuda
