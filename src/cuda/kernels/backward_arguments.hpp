// What the kernels of the backward pass are given, by value.
//
// A source is a query token of a pair; it adds, times the gradient of the pair's score, its row to the gradient of the
// document token that won, and that token's row to its own gradient.
#pragma once

#include <cstdint>

#include "core/params.hpp"

namespace rowmax::cuda {

/// A document's sources are sorted in blocks of 2^11 to 2^15: their numbers and the starts of rows fit 16 bits.
inline constexpr int block_shift_least = 11;
inline constexpr int block_shift_most = 15;
/// Sources of a row are added in runs of so many, each in order, then the runs in order.
inline constexpr int sources_per_run = 256;

inline constexpr int row_sum_warps = 8;  ///< most of a thread block that adds up rows
inline constexpr int lane_elements = 4;
/// Elements of a row that a warp adds up at once.
inline constexpr int slice_elements = 32 * lane_elements;

/// The inverse grid of a call whose documents own their rows: for each block of a document's sources, which are
/// numbered query by query, those that chose each token, ascending.
struct InverseGrid {
    std::uint16_t* starts = nullptr;  ///< [blocks][plane], of document j's token t at its row + j
    std::uint16_t* sorted = nullptr;  ///< [documents][sources]
    std::int64_t sources = 0;         ///< of a document
    std::int64_t plane = 0;           ///< rows and documents
    int blocks = 0;                   ///< of a document's sources
    int shift = block_shift_most;     ///< a block has 2^shift sources
};

struct InvertArguments {
    core::Params params;
    core::Gradients gradients;
    InverseGrid grid;
    int slices = 1;  ///< thread blocks that share a document's windows
    int window = 2;  ///< tokens whose sources a thread block counts at once; even
};

enum class Side : std::uint8_t { queries, documents };

/// All sources by the gradient row that they add to, for calls where other items may add to the same row.
struct SortedSources {
    std::uint32_t* rows = nullptr;
    std::uint32_t* numbers = nullptr;
    std::int64_t count = 0;
};

struct NumberArguments {
    core::Params params;
    core::Gradients gradients;
    SortedSources to;
    Side side = Side::documents;
};

struct NormArguments {
    core::Segments side;
    std::int64_t dim = 0;
    float* inverse = nullptr;  ///< of each row of the storage
};

struct RowSumArguments {
    core::Params params;
    core::Gradients gradients;
    InverseGrid grid;
    SortedSources sorted;
    Side side = Side::documents;     ///< whose gradient
    const float* inverse = nullptr;  ///< with normalize: of the norms of the other side's rows
    int rows_per_block = 1;
    int alone = sources_per_run;  ///< rows with more sources are shared out over the warps of a thread block
};

}  // namespace rowmax::cuda
