// How a call is cut: query rows into blocks, documents into units, units among the blocks of the grid. Plain
// arithmetic, the same on the host, which makes the plan, and on the device, which follows it.
//
//   rows     Query tokens. An item's tokens take whole groups of 8 rows (octs), padded.
//   block    The rows that a thread block holds at once: several short queries, or a piece of a long one.
//   unit     One block of rows with one document (or one part of it): what is scheduled.
//   group    16 consecutive positions of a query, whose maxima are added first: see docs/numerics.md.
#pragma once

#include <cstdint>

#include "core/params.hpp"

namespace rowmax::cuda {

inline constexpr int rows_of_oct = 8;
inline constexpr int rows_of_group = 16;

struct Plan {
    int rows = 0;               ///< of a block
    int octs_per_query = 1;     ///< inside a block
    int queries_per_block = 1;  ///< 1 when a query takes several blocks
    int blocks_per_query = 1;   ///< 1 when a block holds several queries
    int blocks = 0;
    int width = 0;  ///< documents of each block; pairs, where each document has its own query
    int parts = 1;  ///< pieces of each document
    int groups = 1;
    bool plain_documents = false;  ///< what plain_documents() and plain_queries() say
    bool plain_queries = false;
    bool by_tokens = false;   ///< packed documents: thread blocks get equal numbers of tokens, not of documents
    std::int64_t tokens = 0;  ///< then: of all documents, each with document_overhead more than it has
    /// Of the grid: units (by tokens: tokens) a thread block, and how many are left over. Divided on the host, since a
    /// GPU takes long for it.
    std::int64_t share = 0;
    unsigned left_over = 0;
    unsigned grid = 1;
    /// Workspace. Sums of groups [pairs][groups], where a query takes several blocks; maxima of rows and their tokens
    /// [pairs][parts][max_length], where documents are cut, and then what these maxima are multiplied by
    /// [pairs][max_length], where they are.
    float* group_sums = nullptr;
    float* part_maxima = nullptr;
    std::int32_t* part_index = nullptr;
    float* row_factors = nullptr;

    [[nodiscard]] constexpr std::int64_t units() const { return std::int64_t{blocks} * width * parts; }
};

/// Shares the units, or the tokens of all row blocks, out over `grid` thread blocks.
constexpr void share_out(Plan& plan, std::int64_t grid) {
    const std::int64_t all = plan.by_tokens ? plan.blocks * plan.tokens : plan.units();
    plan.grid = static_cast<unsigned>(grid);
    plan.share = all / grid;
    plan.left_over = static_cast<unsigned>(all - plan.share * grid);
}

/// The first unit (by tokens: token) of a thread block, or the end of the one before. Fractions, not equal counts:
/// where row blocks divide the grid, the thread blocks of all of them then go through the same documents at the same
/// time, and find each other's in L2.
constexpr std::int64_t share_begin(const Plan& plan, unsigned thread_block) {
    return plan.share * thread_block + plan.left_over * thread_block / plan.grid;
}

/// Tokens that an empty document counts when work is shared out by tokens.
inline constexpr std::int64_t document_overhead = 16;

/// One unit.
struct Unit {
    int block = 0;
    int item = 0;
    int part = 0;
};

constexpr Unit unit_at(const Plan& plan, std::int64_t number) {
    const std::int64_t of_block = std::int64_t{plan.width} * plan.parts;
    const auto block = plan.blocks == 1 ? 0 : static_cast<int>(core::detail::quotient(number, of_block));
    const auto rest = static_cast<int>(number - block * of_block);
    const int item = plan.parts == 1 ? rest : rest / plan.parts;
    return {block, item, rest - item * plan.parts};
}

constexpr std::int64_t document_of(const core::Params& params, const Plan& plan, const Unit& unit) {
    switch (params.pairs.kind) {
        case core::PairKind::cross:
        case core::PairKind::zipped: return unit.item;
        case core::PairKind::grouped: return std::int64_t{unit.block / plan.blocks_per_query} * plan.width + unit.item;
        case core::PairKind::list: break;
    }
    return params.pairs.document(unit.item);
}

/// Nothing to look up: unit i is document i, whole, of a dense array.
constexpr bool plain_documents(const core::Params& params, const Plan& plan) {
    return params.pairs.kind == core::PairKind::cross && plan.blocks == 1 && plan.parts == 1 &&
           params.d.kind == core::SegmentKind::strided && params.d.inner == 1 && params.d.lengths == nullptr;
}

/// Nothing to look up: row i is token i of the only query.
constexpr bool plain_queries(const core::Params& params, const Plan& plan) {
    return params.q.count == 1 && plan.blocks_per_query == 1 && params.q.kind == core::SegmentKind::strided &&
           params.q.lengths == nullptr;
}

/// True where each unit brings a query of its own.
constexpr bool query_by_item(const core::Params& params) {
    return params.pairs.kind == core::PairKind::zipped || params.pairs.kind == core::PairKind::list;
}

/// Query `slot` of a block; past the last query when the block is not full.
constexpr std::int64_t query_of(const core::Params& params, const Plan& plan, const Unit& unit, int slot) {
    if (query_by_item(params)) return params.pairs.query(unit.item);
    if (plan.blocks_per_query > 1) return unit.block / plan.blocks_per_query;
    return std::int64_t{unit.block} * plan.queries_per_block + slot;
}

constexpr std::int64_t pair_of(const core::Params& params, const Plan& plan, const Unit& unit, std::int64_t query) {
    if (params.pairs.kind == core::PairKind::cross) return query * plan.width + unit.item;
    return params.pairs.kind == core::PairKind::grouped ? document_of(params, plan, unit) : unit.item;
}

/// Position in its query of the block's first row.
constexpr int first_position(const core::Params& params, const Plan& plan, const Unit& unit) {
    if (plan.blocks_per_query == 1) return 0;
    return (query_by_item(params) ? unit.block : unit.block % plan.blocks_per_query) * plan.rows;
}

/// What row `row` of a block stands for.
struct Row {
    std::int64_t query = 0;
    int position = 0;       ///< in its query
    bool in_query = false;  ///< below Lq: it has a place in the index
    bool kept = false;      ///< and it is a token that counts
    core::Segment segment;
};

constexpr Row row_of(const core::Params& params, const Plan& plan, const Unit& unit, int row) {
    Row r;
    const int oct = row / rows_of_oct;
    const int slot = plan.queries_per_block == 1 ? 0 : oct / plan.octs_per_query;
    r.position = first_position(params, plan, unit) + row - slot * plan.octs_per_query * rows_of_oct;
    if (slot >= plan.queries_per_block) return r;
    r.query = query_of(params, plan, unit, slot);
    if (r.query >= params.q.count) return r;
    r.in_query = r.position < params.q.max_length;
    r.segment = params.q.at(r.query);
    r.kept = r.position < r.segment.length && params.q.keeps(r.segment, r.position);
    return r;
}

/// The same where plain_queries().
constexpr Row plain_row(const core::Params& params, int row) {
    Row r;
    r.position = row;
    r.in_query = row < params.q.max_length;
    r.segment.data = params.q.data;
    r.segment.length = params.q.length;
    r.kept = row < params.q.length && params.q.keeps(r.segment, row);
    return r;
}

/// Rows of a block that can hold tokens: whole octs.
constexpr int rows_used(const core::Params& params, const Plan& plan, const Unit& unit) {
    if (plan.blocks_per_query > 1) {
        const std::int64_t left = params.q.max_length - first_position(params, plan, unit);
        const std::int64_t octs = (left + rows_of_oct - 1) / rows_of_oct;
        return static_cast<int>(octs * rows_of_oct < plan.rows ? octs * rows_of_oct : plan.rows);
    }
    std::int64_t queries = plan.queries_per_block;
    if (!query_by_item(params)) {
        const std::int64_t left = params.q.count - std::int64_t{unit.block} * plan.queries_per_block;
        queries = left < queries ? left : queries;
    }
    return static_cast<int>(queries) * plan.octs_per_query * rows_of_oct;
}

/// Tiles of `tokens` tokens that a unit's part takes of a document of this length.
struct TokenRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

constexpr TokenRange tokens_of_part(const Plan& plan, int part, std::int64_t length, int tokens) {
    if (plan.parts == 1) return {0, length};
    const std::int64_t tiles = (length + tokens - 1) / tokens;
    const std::int64_t begin = tiles * part / plan.parts * tokens;
    const std::int64_t end = tiles * (part + 1) / plan.parts * tokens;
    return {begin, end < length ? end : length};
}

/// Blocks of `most` rows at the most, in steps of `step`, none of them less full than it must be: how many rows a block
/// of a query of `octs` octs has.
constexpr int even_rows(std::int64_t octs, int most, int step) {
    const std::int64_t steps = (octs * rows_of_oct + step - 1) / step;
    const std::int64_t blocks = (steps * step + most - 1) / most;
    return static_cast<int>((steps + blocks - 1) / blocks) * step;
}

/// How a call of this shape is cut into blocks of at most `rows` rows for a device of `processors` multiprocessors.
/// With a `step`, blocks may have any multiple of that, from two on, and have no more than they need.
constexpr Plan make_plan(const core::Params& params, int rows, int processors, int step = 0) {
    const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    Plan plan;
    const std::int64_t length = params.q.max_length > 0 ? params.q.max_length : 1;
    const std::int64_t octs = ceil_div(length, rows_of_oct);
    if (step > 0 && octs * rows_of_oct > rows) rows = even_rows(octs, rows, step);
    plan.rows = rows;
    const std::int64_t octs_of_block = rows / rows_of_oct;
    plan.groups = static_cast<int>(ceil_div(length, rows_of_group));
    plan.octs_per_query = static_cast<int>(octs < octs_of_block ? octs : octs_of_block);
    plan.blocks_per_query = static_cast<int>(ceil_div(octs, octs_of_block));
    std::int64_t blocks = plan.blocks_per_query;
    std::int64_t width = params.pairs.count;
    if (params.pairs.kind == core::PairKind::cross) {
        const std::int64_t most = octs_of_block / plan.octs_per_query;
        if (plan.blocks_per_query == 1) {
            blocks = ceil_div(params.q.count, most);
            // Equally full blocks.
            plan.queries_per_block = static_cast<int>(ceil_div(params.q.count, blocks));
            blocks = ceil_div(params.q.count, plan.queries_per_block);
        } else {
            blocks = params.q.count * plan.blocks_per_query;
        }
        width = params.pairs.width;
        plan.by_tokens = params.d.kind == core::SegmentKind::offsets;
        plan.tokens = params.d.total_rows + params.d.count * document_overhead;
    } else if (params.pairs.kind == core::PairKind::grouped) {
        blocks = params.q.count * plan.blocks_per_query;
        width = params.pairs.width;
    }
    plan.blocks = static_cast<int>(blocks);
    plan.width = static_cast<int>(width);
    if (step > 0) {
        const int used = plan.queries_per_block * plan.octs_per_query * rows_of_oct;
        plan.rows = used <= 2 * step ? 2 * step : (used + step - 1) / step * step;
    }

    // Documents are cut where there are too few of them to go round, and only into pieces worth a thread block.
    constexpr std::int64_t least_part = 512;
    const std::int64_t mean = params.d.kind == core::SegmentKind::offsets && params.d.count > 0
                                  ? params.d.total_rows / params.d.count
                                  : params.d.max_length;
    const std::int64_t units = blocks * width;
    if (units > 0 && units < 2 * processors && mean >= 2 * least_part) {
        const std::int64_t wanted = ceil_div(4 * processors, units);
        const std::int64_t most = mean / least_part;
        plan.parts = static_cast<int>(wanted < most ? wanted : most);
        if (plan.parts > 1) plan.by_tokens = false;
    }
    plan.plain_documents = plain_documents(params, plan);
    plan.plain_queries = plain_queries(params, plan);
    return plan;
}

}  // namespace rowmax::cuda
