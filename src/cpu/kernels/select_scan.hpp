// Documents that stream past query blocks, with every similarity handed to a fold that keeps what it wants of it.
//
//   query block (packed panels)    x    48 document rows at a time   ->   similarities [row][lane], in L1 or L2
//                                                                          fold.add(..)   after each block of rows
//                                                                          fold.close(..) after each document
//
// Blocks have the same rows on every instruction set: what a fold adds up block by block has the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "core/parallel.hpp"
#include "cpu/kernels/document_rows.hpp"
#include "cpu/kernels/query_block.hpp"
#include "cpu/kernels/row_blocks.hpp"
#include "cpu/kernels/row_values.hpp"
#include "cpu/kernels/schedule.hpp"
#include "cpu/kernels/select_ops.hpp"
#include "cpu/kernels/token_sum.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

/// The functions of one instruction set, for one type.
template <class Value>
struct SelectMachine {
    const TileOps& tiles;
    const SelectOps<Value>& select;
};

template <class Value>
SelectMachine<Value> machine_of(const TileOps& tiles, const SelectionOps& selection) {
    if constexpr (std::is_same_v<Value, float>) {
        return {tiles, selection.f32};
    } else {
        return {tiles, selection.f64};
    }
}

/// Similarities of a block of document rows: row r, lane l of prefix p at at(p, r)[l].
template <class Value>
struct SimilarityBlock {
    Value* data = nullptr;
    std::int64_t lanes = 0;
    std::int64_t prefix_step = 0;
    const RowBlock* rows = nullptr;

    [[nodiscard]] Value* at(std::int64_t prefix, std::int64_t row) const {
        return data + prefix * prefix_step + row * lanes;
    }
};

template <class Value>
class Similarities {
  public:
    /// `prefixes`: numbers of dimensions that are wanted; empty: all of them.
    Similarities(const SelectMachine<Value>& machine, const core::Params& params,
                 std::span<const std::int64_t> prefixes = {})
        : machine_(machine), params_(params), documents_(machine.tiles, params), dim_(params.dim), prefixes_(prefixes) {
        if (prefixes_.empty()) prefixes_ = std::span(&dim_, 1);
        documents_.reserve(prepared_, select_block_rows);
    }
    Similarities(const Similarities&) = delete;
    Similarities& operator=(const Similarities&) = delete;

    SimilarityBlock<Value> compute(const QueryBlock<Value>& queries, const RowBlock& block) {
        const std::int64_t height = select_block_rows + row_padding;
        SimilarityArgs<Value> args;
        args.dim = documents_.steps();
        args.run = documents_.chain();
        args.rows = rows_ = documents_.prepare(prepared_, block);
        args.scales = documents_.scaled() ? prepared_.scales.data() : nullptr;
        args.row_count = block.count;
        args.prefixes = prefixes_.data();
        args.prefix_count = static_cast<std::int64_t>(prefixes_.size());
        args.row_step = queries.lanes();
        args.prefix_step = height * args.row_step;
        args.to = memory_.reserve(args.prefix_count * args.prefix_step);
        args.panels = queries.panels();
        args.panel_count = queries.split().wide;
        if (args.panel_count > 0) machine_.select.similarities_wide(args);
        const SimilarityBlock<Value> result{args.to, args.row_step, args.prefix_step, &block};
        if (queries.split().narrow == 0) return result;
        const std::int64_t lanes = args.panel_count * 2 * typed<Value>(machine_.tiles).lanes;
        args.panels += lanes * args.dim;
        args.to += lanes;
        args.panel_count = 1;
        machine_.select.similarities_narrow(args);
        return result;
    }

    /// The rows of the last block as they were multiplied, and their factors, null where there are none.
    [[nodiscard]] const std::byte* const* rows() const { return rows_; }
    [[nodiscard]] const Value* scales() const { return documents_.scaled() ? prepared_.scales.data() : nullptr; }

  private:
    SelectMachine<Value> machine_;
    const core::Params& params_;
    DocumentRows<Value> documents_;
    std::int64_t dim_;
    std::span<const std::int64_t> prefixes_;
    PreparedRows<Value> prepared_;
    const std::byte* const* rows_ = nullptr;
    Buffer<Value> memory_;
};

/// Query rows whose similarities to a block of document rows are held at once: what is folded stays in L1.
template <class Value>
std::int64_t select_query_rows(const SelectMachine<Value>& machine, const core::Params& params) {
    constexpr std::int64_t most = 64;
    return std::min(most, query_rows(params.dim, sizeof(Value), 2 * typed<Value>(machine.tiles).lanes));
}

inline constexpr BlockShape select_shape{select_block_rows, select_block_rows};

/// Calls f(begin, end) for every slice of the span's queries: [0, -1) for whole queries.
template <class F>
void each_slice(const core::Params& params, const Span& span, std::int64_t slice_rows, F f) {
    const std::int64_t length = params.q.at(span.first_query).length;
    if (span.last_query - span.first_query > 1 || length <= slice_rows) return f(std::int64_t{0}, std::int64_t{-1});
    for (std::int64_t begin = 0; begin < length; begin += slice_rows) f(begin, std::min(begin + slice_rows, length));
}

template <class Value>
void load_queries(QueryBlock<Value>& queries, const TileOps& tiles, const core::Params& params, const Span& span,
                  std::int64_t begin, std::int64_t end) {
    if (end < 0) {
        queries.gather_queries(params, span.first_query, span.last_query);
    } else {
        queries.gather_slice(params, span.first_query, begin, end);
    }
    queries.pack(tiles, params, false);
}

/// Streams the documents of a span past loaded queries. A fold has open(), add(similarities) and close(item).
template <class Value, class Fold>
void scan_documents(Similarities<Value>& similarities, const core::Params& params, const Schedule& schedule,
                    const QueryBlock<Value>& queries, const Span& span, Fold& fold) {
    const auto document = [&](std::int64_t item) { return schedule.document(span.unit + item); };
    RowBlocks blocks(params.d, document, span.count, select_shape, 0, 1);
    RowBlock block;
    while (blocks.next(block)) {
        if (block.first) fold.open();
        if (block.count > 0) fold.add(similarities.compute(queries, block));
        if (block.last) fold.close(block.item);
    }
}

/// All pairs of a problem. make() gives the fold of a task; it has, besides those above, load(queries, span).
template <class Value, class MakeFold>
void scan_pairs(const SelectMachine<Value>& machine, const core::Params& params, MakeFold make,
                std::span<const std::int64_t> prefixes = {}) {
    if (params.pairs.count == 0) return;
    const Schedule schedule(params, select_query_rows(machine, params));
    const std::int64_t units = schedule.units();
    const std::int64_t tasks =
        schedule.threads() == 1 ? 1 : std::min(units, std::int64_t{schedule.threads()} * tasks_per_thread);
    core::parallel_for(schedule.threads(), tasks, [&](std::int64_t task) {
        auto fold = make(schedule);
        QueryBlock<Value> queries;
        Similarities<Value> similarities(machine, params, prefixes);
        const std::int64_t end = units * (task + 1) / tasks;
        for (std::int64_t unit = units * task / tasks; unit < end;) {
            const Span span = schedule.span(unit, end);
            each_slice(params, span, schedule.slice_rows(), [&](std::int64_t from, std::int64_t to) {
                load_queries(queries, machine.tiles, params, span, from, to);
                fold.load(queries, span);
                scan_documents(similarities, params, schedule, queries, span, fold);
            });
            unit += span.count;
        }
    });
}

/// 1 / temperature, kept where it is neither 0 nor infinite, so that 0 and infinite differences times it are no NaN.
template <class Value>
Value exponential_factor(double temperature) {
    using Limits = std::numeric_limits<Value>;
    return static_cast<Value>(1 / std::clamp(temperature, double{Limits::min()}, double{Limits::max() / 4}));
}

/// Writes what the tokens of a piece add to the score of a pair: `lanes` holds it by lane, null where nothing is seen.
/// `total` carries the score from piece to piece; `tokens`, where not null, gets what every position added. True when
/// the score is complete.
template <class Value>
bool write_tokens(const core::Params& params, const QueryBlock<Value>& queries, const Piece& piece, std::int64_t pair,
                  const Value* lanes, double& total, Buffer<Value>& scratch, Value* tokens) {
    const std::int64_t count = piece.end - piece.begin;
    Value* to = tokens == nullptr ? scratch.reserve(std::max<std::int64_t>(count, 1))
                                  : tokens + pair * params.q.max_length + piece.begin;
    std::fill_n(to, count, Value{0});
    for (std::int64_t i = 0; lanes != nullptr && i < piece.kept; ++i) {
        const std::int64_t lane = piece.first_lane + i;
        // One NaN for all: which of several operands' NaN survives an instruction is not ours to choose.
        to[queries.position(lane) - piece.begin] =
            lanes[lane] == lanes[lane] ? lanes[lane] : std::numeric_limits<Value>::quiet_NaN();
    }
    if (piece.begin == 0) total = 0;
    total = add_groups(total, to, count);
    if (piece.final && tokens != nullptr) std::fill_n(to + count, params.q.max_length - piece.end, Value{0});
    return piece.final;
}

}  // namespace rowmax::cpu
