// Tile and block sizes: constexpr functions of the instruction set, the tokens' type and the shape.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rowmax::cpu {

/// Document rows of a tile of two vectors: their accumulators, two query vectors and two scratch registers have to fit,
/// and each row needs an address register.
constexpr int tile_rows(int vector_registers) {
    constexpr int address_registers = 8;
    const int fitting = (vector_registers - 4) / 2;
    return fitting < address_registers ? fitting : address_registers;
}

/// Rows of a tile of two vectors that keeps the sums of two chains in registers; 0 where those are too few. Of two
/// short chains one would else wait in memory for the other, which costs a tenth of the time where chains have 8
/// products.
constexpr int paired_rows(int vector_registers) {
    const int fitting = (vector_registers - 4) / 4;
    return fitting >= 6 ? 6 : 0;
}

/// Chains that are worth pairs.
constexpr bool run_in_pairs(std::int64_t chain) {
    return chain <= 8;
}

/// Rows of the tile that takes what the full tiles leave over.
constexpr int tail_rows(int rows) {
    return rows % 3 == 0 ? rows / 3 : rows / 2;
}

/// Query rows up to which lanes of document tokens take less time than a panel of one vector of query lanes.
constexpr std::int64_t most_few_rows(std::int64_t lanes) {
    return lanes / 2;
}

/// Few rows that are multiplied at once. More are taken in turns: each number of rows is code of its own, which has to
/// be compiled.
inline constexpr std::int64_t few_at_once = 4;

/// How many of `rows` the next turn takes, so that all turns have about as many.
constexpr std::int64_t few_in_turn(std::int64_t rows) {
    const std::int64_t turns = (rows + few_at_once - 1) / few_at_once;
    return turns == 0 ? 0 : (rows + turns - 1) / turns;
}

/// Which kernel takes how many of a block's query rows: panels of two vectors, and for what is left over another one,
/// or one of a single vector, or the kernel of few rows.
struct QuerySplit {
    std::int64_t wide = 0;    ///< panels
    std::int64_t narrow = 0;  ///< panels, at most 1
    std::int64_t few = 0;     ///< rows
};

/// `few` false: there is no kernel of few rows.
constexpr QuerySplit split_queries(std::int64_t rows, std::int64_t lanes, bool few = true) {
    const std::int64_t wide = rows / (2 * lanes);
    const std::int64_t left = rows % (2 * lanes);
    if (left == 0 || (few && left <= most_few_rows(lanes))) return {wide, 0, left};
    return left <= lanes ? QuerySplit{wide, 1, 0} : QuerySplit{wide + 1, 0, 0};
}

/// Products added by one chain of multiply-adds, before its sum joins the tree: the same for every instruction set, or
/// scores would differ. The longer the chain, the larger the rounding error and the fewer the extra additions: float32
/// tokens have the tightest bound.
constexpr std::int64_t run_length(std::int64_t token_bytes) {
    return token_bytes == 4 ? 8 : 32;
}

/// Document rows processed by all query panels before the next are touched: half of a 32 KiB L1.
inline constexpr std::int64_t most_block_rows = 192;

constexpr std::int64_t block_rows(std::int64_t dim, std::int64_t value_bytes, std::int64_t rows_of_tile) {
    constexpr std::int64_t bytes = 16 * 1024;
    const std::int64_t most_tiles = most_block_rows / rows_of_tile;
    const std::int64_t tiles = bytes / (dim * value_bytes * rows_of_tile);
    return (tiles < 1 ? 1 : (tiles > most_tiles ? most_tiles : tiles)) * rows_of_tile;
}

/// Document rows whose similarities are held at once where more than their maximum is wanted: whole tiles of every
/// instruction set, so that sums over a block are the same sums everywhere.
inline constexpr std::int64_t select_block_rows = 48;

/// Memory of the query rows that are packed at once: they stay in L2 while documents stream past.
inline constexpr std::int64_t query_bytes = 512 * 1024;
/// The same where documents have to be projected for every such block of queries: that takes longer than reading the
/// panels from L3.
inline constexpr std::int64_t query_bytes_of_projected = 4 * query_bytes;

/// Query rows packed at once. A multiple of 16, the tokens of a group of the score's sum.
constexpr std::int64_t query_rows(std::int64_t dim, std::int64_t value_bytes, std::int64_t lanes_of_panel,
                                  std::int64_t bytes = query_bytes) {
    const std::int64_t unit = lanes_of_panel % 16 == 0 ? lanes_of_panel : 16;
    const std::int64_t units = bytes / (dim * value_bytes * unit);
    return (units < 1 ? 1 : units) * unit;
}

/// Hidden states that are widened at once, and then projected.
inline constexpr std::int64_t widened_rows = 24;

/// Multiplications that are worth waking a thread for: some tens of microseconds.
inline constexpr double multiplications_per_thread = 2e6;
/// Tasks that each thread may take, so that ragged documents balance.
inline constexpr std::int64_t tasks_per_thread = 8;
/// Tokens of the smallest part of a document that is cut.
inline constexpr std::int64_t least_part = 512;

/// Sources of a gradient row, or of a destination of scatter_sum, that are added up in order before their sum joins the
/// others: the same everywhere, or sums would differ.
inline constexpr std::int64_t sources_per_run = 256;

/// Additions of scatter_sum (each row counts as a few more, for looking it up) that are worth waking a thread for.
inline constexpr double additions_per_thread = 2e5;

/// Whether scatter_sum adds rows where they belong as they come, rather than sort them first: where the sums stay in L2
/// from source to source, or where a sort would move more memory than the rows.
constexpr bool scatter_directly(std::int64_t sources, std::int64_t destinations, std::int64_t channels,
                                std::int64_t sum_bytes) {
    constexpr std::int64_t l2 = 1024 * 1024;
    const bool small = channels == 0 || destinations <= l2 / (channels * sum_bytes);
    return small || sources < destinations / 4;
}

/// Whether adding directly beats a grid that is there already: where rows are short and a destination has few of them,
/// what is done once for each destination takes longer than its sum.
constexpr bool grid_is_slower(std::int64_t sources, std::int64_t destinations, std::int64_t channels) {
    return channels < 8 && sources / 32 < destinations;
}

/// Threads that add directly. Shared out by destinations, each looks at the whole index and skips at random what
/// belongs to the others, which for short rows takes as long as adding it.
constexpr std::int64_t scatter_parts(std::int64_t channels, std::int64_t threads) {
    return channels < 16 ? 1 : threads;
}

}  // namespace rowmax::cpu
