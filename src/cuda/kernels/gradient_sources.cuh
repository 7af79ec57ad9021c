// Where the sources of a gradient row are found: by pairs, in the inverse grid, or in a list of all sources by row.
//
//     find(row)              a row of the storage and how many sources it has
//     segments(...)          its sources skip .. skip + take - 1 as stretches of consecutive places, to f(first,
//     count);
//                            called by whole warps
//     term(row, at)          what the source at a place adds; null: nothing
#pragma once

#include "cuda/kernels/backward_arguments.hpp"
#include "cuda/kernels/winner.cuh"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

/// A destination row.
struct GradientRow {
    std::int64_t item = -1;
    std::int64_t begin = 0;  ///< what it means is the finder's
    int token = 0;
    int count = 0;  ///< of sources
};

/// A token row that is added, and its factor.
struct Term {
    const std::byte* row = nullptr;
    float factor = 0;
};

__device__ __forceinline__ float factor_of(const RowSumArguments& call, std::int64_t pair, std::int64_t other_row) {
    const float gradient = static_cast<const float*>(call.gradients.scores)[pair];
    return call.inverse == nullptr ? gradient : gradient * call.inverse[other_row];
}

__device__ __forceinline__ Term query_term(const RowSumArguments& call, std::int64_t pair, std::int64_t query,
                                           std::int64_t position) {
    const core::Segment segment = call.params.q.at(query);
    return {segment.data + position * call.params.q.row_stride, factor_of(call, pair, segment.first_row + position)};
}

__device__ __forceinline__ Term document_term(const RowSumArguments& call, std::int64_t pair, std::int64_t document,
                                              std::int64_t position) {
    const std::int64_t token = winner(call.gradients, pair * call.params.q.max_length + position);
    const core::Segment segment = call.params.d.at(document);
    if (token < 0 || token >= segment.length) return {};
    return {segment.data + token * call.params.d.row_stride, factor_of(call, pair, segment.first_row + token)};
}

/// Query rows of cross, grouped and zipped calls: a source for each pair of the query, in order.
struct PairSources {
    const RowSumArguments& call;

    [[nodiscard]] __device__ GradientRow find(std::int64_t storage_row) const {
        const TokenPlace place = place_of_row(call.params.q, storage_row);
        const core::Pairs& pairs = call.params.pairs;
        const std::int64_t each = pairs.kind == core::PairKind::zipped ? 1 : pairs.width;
        const bool none = place.item < 0 || place.token >= call.params.q.max_length;
        return {place.item, place.item * each, static_cast<int>(place.token), none ? 0 : static_cast<int>(each)};
    }

    template <class F>
    __device__ __forceinline__ void segments(const GradientRow& row, int skip, int take, F f) const {
        const int left = row.count - skip;
        f(skip, left < take ? left : take);
    }

    [[nodiscard]] __device__ __forceinline__ Term term(const GradientRow& row, int at) const {
        const std::int64_t pair = row.begin + at;
        const bool cross = call.params.pairs.kind == core::PairKind::cross;
        return document_term(call, pair, cross ? pair - row.begin : pair, row.token);
    }
};

/// Document rows of the same calls. Places count a document's sorted sources, blocks and all.
struct GridSources {
    const RowSumArguments& call;

    [[nodiscard]] __device__ __forceinline__ int start(int block, std::int64_t at) const {
        return call.grid.starts[block * call.grid.plane + at];
    }

    [[nodiscard]] __device__ GradientRow find(std::int64_t storage_row) const {
        const TokenPlace place = place_of_row(call.params.d, storage_row);
        GradientRow row{place.item, storage_row + place.item, static_cast<int>(place.token), 0};
        for (int block = 0; place.item >= 0 && block < call.grid.blocks; ++block) {
            row.count += start(block, row.begin + 1) - start(block, row.begin);
        }
        return row;
    }

    // Each lane looks up a block, all go through those that hold something.
    template <class F>
    __device__ __forceinline__ void segments(const GradientRow& row, int skip, int take, F f) const {
        const int lane = static_cast<int>(threadIdx.x % 32);
        for (int group = 0; group < call.grid.blocks; group += 32) {
            const int block = group + lane;
            const int begin = block < call.grid.blocks ? start(block, row.begin) : 0;
            const int size = block < call.grid.blocks ? start(block, row.begin + 1) - begin : 0;
            for (std::uint32_t full = ballot(size > 0); full != 0; full &= full - 1) {
                const int chosen = __ffs(static_cast<int>(full)) - 1;
                const int held = from_lane(size, chosen);
                const int first = ((group + chosen) << call.grid.shift) + from_lane(begin, chosen);
                if (skip >= held) {
                    skip -= held;
                    continue;
                }
                const int count = held - skip < take ? held - skip : take;
                f(first + skip, count);
                take -= count;
                skip = 0;
                if (take == 0) return;
            }
        }
    }

    [[nodiscard]] __device__ __forceinline__ Term term(const GradientRow& row, int at) const {
        const core::Pairs& pairs = call.params.pairs;
        const bool cross = pairs.kind == core::PairKind::cross;
        const int block = at >> call.grid.shift << call.grid.shift;
        const std::int64_t number = block + call.grid.sorted[row.item * call.grid.sources + at];
        const std::int64_t query = cross ? core::detail::quotient(number, call.params.q.max_length) : 0;
        const std::int64_t position = number - query * call.params.q.max_length;
        const std::int64_t pair = cross ? query * pairs.width + row.item : row.item;
        return query_term(call, pair, cross ? query : pairs.query(pair), position);
    }
};

/// Rows that several items may share, on either side.
struct ListedSources {
    const RowSumArguments& call;

    /// The first of the sorted sources whose row is not below this one.
    [[nodiscard]] __device__ std::int64_t first_of(std::int64_t storage_row) const {
        std::int64_t low = 0;
        std::int64_t high = call.sorted.count;
        while (low < high) {
            const std::int64_t middle = (low + high) / 2;
            if (call.sorted.rows[middle] < storage_row) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    [[nodiscard]] __device__ GradientRow find(std::int64_t storage_row) const {
        const std::int64_t begin = first_of(storage_row);
        return {0, begin, 0, static_cast<int>(first_of(storage_row + 1) - begin)};
    }

    template <class F>
    __device__ __forceinline__ void segments(const GradientRow& row, int skip, int take, F f) const {
        const int left = row.count - skip;
        f(skip, left < take ? left : take);
    }

    [[nodiscard]] __device__ __forceinline__ Term term(const GradientRow& row, int at) const {
        const std::int64_t number = call.sorted.numbers[row.begin + at];
        const std::int64_t pair = core::detail::quotient(number, call.params.q.max_length);
        const std::int64_t position = number - pair * call.params.q.max_length;
        if (call.side == Side::documents) return query_term(call, pair, call.params.pairs.query(pair), position);
        return document_term(call, pair, call.params.pairs.document(pair), position);
    }
};

}  // namespace rowmax::cuda
