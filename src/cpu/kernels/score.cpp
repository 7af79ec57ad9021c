#include "cpu/kernels/score.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/kernels/document_rows.hpp"
#include "cpu/kernels/query_block.hpp"
#include "cpu/kernels/results.hpp"
#include "cpu/kernels/row_blocks.hpp"
#include "cpu/kernels/row_values.hpp"
#include "cpu/kernels/rows_meanwhile.hpp"
#include "cpu/kernels/schedule.hpp"
#include "cpu/kernels/spread_maxima.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

namespace {

/// What a thread keeps between documents, tasks and calls.
template <class Value>
struct Workspace {
    QueryBlock<Value> queries;
    std::int64_t loaded[4] = {-1, -1, -1, -1};  ///< call, first query, last query, first position
    Buffer<Value> best;
    Buffer<Index<Value>> index;
    SpreadMaxima<Value> spread;
    PreparedRows<Value> documents[2];
    int prepared = 0;  ///< which of them holds the block at hand
    Buffer<double> totals;
    Buffer<Value> similarity;
    RowBlock blocks[3];
};

template <class Value>
Workspace<Value>& workspace() {
    static thread_local Workspace<Value> mine;
    return mine;
}

std::int64_t new_call_number() {
    static std::atomic<std::int64_t> calls{0};
    return calls.fetch_add(1, std::memory_order_relaxed);
}

/// What the parts of cut documents found, until the last of them merges it.
template <class Value>
struct PartialMaxima {
    std::int64_t stride = 0;
    std::unique_ptr<Value[]> best;
    std::unique_ptr<Index<Value>[]> index;
    std::unique_ptr<std::int32_t[]> first_kept;
    std::unique_ptr<std::atomic<std::int64_t>[]> missing;  ///< parts of each unit that are not done

    PartialMaxima(std::int64_t units, std::int64_t parts, std::int64_t rows, bool indexed) : stride(rows) {
        const auto size = static_cast<std::size_t>(units * parts);
        best = std::make_unique_for_overwrite<Value[]>(size * static_cast<std::size_t>(rows));
        if (indexed) index = std::make_unique_for_overwrite<Index<Value>[]>(size * static_cast<std::size_t>(rows));
        first_kept = std::make_unique<std::int32_t[]>(size);
        missing = std::make_unique<std::atomic<std::int64_t>[]>(static_cast<std::size_t>(units));
        for (std::int64_t u = 0; u < units; ++u) missing[static_cast<std::size_t>(u)] = parts;
    }

    Maxima<Value> at(std::int64_t slot, std::int64_t row) {
        const std::int64_t offset = slot * stride + row;
        return {best.get() + offset, index == nullptr ? nullptr : index.get() + offset,
                first_kept[static_cast<std::size_t>(slot)]};
    }
};

/// Later maxima join earlier ones: the same choice as in the tile kernel's fold.
template <class Value>
void merge(Maxima<Value>& into, const Maxima<Value>& later, std::int64_t rows) {
    if (into.first_kept < 0) into.first_kept = later.first_kept;
    for (std::int64_t i = 0; i < rows; ++i) {
        const bool wins = !(later.best[i] <= into.best[i]) && into.best[i] == into.best[i];
        if (!wins) continue;
        into.best[i] = later.best[i];
        if (into.index != nullptr) into.index[i] = later.index[i];
    }
}

template <class Value>
class ScoreCall {
  public:
    ScoreCall(const TileOps& ops, const core::Params& params, const core::Outputs& outputs)
        : ops_(ops),
          typed_(fold_ops<Value>(ops, params)),
          params_(params),
          documents_(ops, params),
          writer_(params, outputs),
          indexed_(outputs.index != nullptr),
          spread_tokens_(indexed_ || outputs.similarity != nullptr),
          schedule_(params, query_rows(documents_.steps(), sizeof(Value), 2 * typed_.lanes,
                                       documents_.projected() ? query_bytes_of_projected : query_bytes)) {}

    void run() {
        if (schedule_.parts() > 1) {
            const std::int64_t rows = std::max(schedule_.slice_rows(), params_.q.max_length) + 2 * typed_.lanes;
            partial_ = std::make_unique<PartialMaxima<Value>>(schedule_.units(), schedule_.parts(), rows, indexed_);
        }
        core::parallel_for(schedule_.threads(), schedule_.tasks(), [this](std::int64_t task) { run_task(task); });
    }

  private:
    using Work = Workspace<Value>;

    void run_task(std::int64_t task) {
        Work& work = workspace<Value>();
        if (partial_ != nullptr) return run_part(work, task / schedule_.parts(), task % schedule_.parts());
        const std::int64_t end = schedule_.first_unit(task + 1);
        for (std::int64_t unit = schedule_.first_unit(task); unit < end;) {
            const Span span = schedule_.span(unit, end);
            run_span(work, span, 0, 1);
            unit += span.count;
        }
    }

    void run_part(Work& work, std::int64_t unit, std::int64_t part) {
        run_span(work, schedule_.span(unit, unit + 1), part, schedule_.parts());
        auto& missing = partial_->missing[static_cast<std::size_t>(unit)];
        if (missing.fetch_sub(1, std::memory_order_acq_rel) == 1) finish_unit(work, unit);
    }

    /// Calls f(first position) for every slice of the span's queries, with the slice loaded.
    template <class F>
    void each_slice(Work& work, const Span& span, F f) {
        const std::int64_t length = params_.q.at(span.first_query).length;
        const bool whole = span.last_query - span.first_query > 1 || length <= schedule_.slice_rows();
        const std::int64_t step = whole ? std::max<std::int64_t>(length, 1) : schedule_.slice_rows();
        std::int64_t begin = 0;
        do {
            load(work, span, begin, whole ? -1 : std::min(begin + step, length));
            f(begin);
            begin += step;
        } while (begin < length);
    }

    void load(Work& work, const Span& span, std::int64_t begin, std::int64_t end) {
        const std::int64_t wanted[4] = {call_, span.first_query, span.last_query, begin};
        if (std::equal(wanted, wanted + 4, work.loaded)) return;
        work.loaded[0] = -1;
        if (end < 0) {
            work.queries.gather_queries(params_, span.first_query, span.last_query);
        } else {
            work.queries.gather_slice(params_, span.first_query, begin, end);
        }
        work.queries.pack(ops_, params_);
        std::copy(wanted, wanted + 4, work.loaded);
    }

    void run_span(Work& work, const Span& span, std::int64_t part, std::int64_t parts) {
        double* totals = work.totals.reserve(span.count);
        each_slice(work, span, [&](std::int64_t begin) {
            scan(work, span, part, parts, [&](std::int64_t item, const Maxima<Value>& maxima) {
                if (partial_ == nullptr) return write(work, span.unit + item, maxima, totals[item]);
                keep(span.unit * parts + part, begin, work.queries.rows(), maxima);
            });
        });
    }

    /// Streams documents past the loaded queries; calls deliver(item, maxima) after each.
    template <class Deliver>
    void scan(Work& work, const Span& span, std::int64_t part, std::int64_t parts, Deliver deliver) {
        const auto document = [&](std::int64_t item) { return schedule_.document(span.unit + item); };
        const BlockShape shape = shape_for(work.queries);
        RowBlocks blocks(params_.d, document, span.count, shape, part, parts);
        Maxima<Value> maxima = reserve(work, shape);
        RowBlock* now = &work.blocks[0];
        RowBlock* next = &work.blocks[1];
        RowBlock* third = &work.blocks[2];
        int more = blocks.next(*now) ? (blocks.next(*next) ? 2 : 1) : 0;
        bool ready = false;
        while (more > 0) {
            if (more > 1 && blocks.next(*third)) ++more;
            if (now->first) reset(work, maxima);
            if (now->count > 0) {
                if (maxima.first_kept < 0) maxima.first_kept = now->tokens[0];
                ready = fold_block(work, *now, ready, {more > 1 ? next : nullptr, more > 2 ? third : nullptr},
                                   shape.tile_rows, maxima);
            }
            if (now->last) {
                work.spread.gather(maxima, work.queries.panel_lanes());
                deliver(now->item, maxima);
            }
            --more;
            RowBlock* free = now;
            now = next;
            next = third;
            third = free;
        }
    }

    static bool few_alone(const QueryBlock<Value>& queries) { return queries.panel_lanes() == 0; }

    /// The kernel of few query rows takes 16-bit rows as they are, unless others or norms need them widened anyway.
    bool raw_halves(const QueryBlock<Value>& queries) const {
        return few_alone(queries) && documents_.plain_halves() && ops_.fold_few_f16 != nullptr;
    }
    using Fold = void (*)(const FoldArgs<Value>&);
    [[nodiscard]] Fold few_kernel(const QueryBlock<Value>& queries) const {
        if constexpr (std::is_same_v<Value, float>) {
            if (raw_halves(queries)) return params_.dtype == DType::f16 ? ops_.fold_few_f16 : ops_.fold_few_bf16;
        }
        return typed_.fold_few;
    }

    [[nodiscard]] bool in_pairs() const { return typed_.fold_paired != nullptr && run_in_pairs(documents_.chain()); }

    /// Blocks of whole tiles of the kernel that takes most of the work.
    BlockShape shape_for(const QueryBlock<Value>& queries) const {
        const std::int64_t full = in_pairs() ? typed_.paired_rows : typed_.tile_rows;
        const std::int64_t tile = few_alone(queries) ? typed_.few_lanes : full;
        return {block_rows(documents_.steps(), sizeof(Value), tile), tile};
    }

    Maxima<Value> reserve(Work& work, BlockShape shape) {
        const std::int64_t lanes = std::max<std::int64_t>(work.queries.lanes(), 1);
        for (PreparedRows<Value>& rows : work.documents) documents_.reserve(rows, shape.most_rows);
        work.spread.reserve(work.queries.split().few, typed_.few_lanes, spread_tokens_);
        return {work.best.reserve(lanes), indexed_ ? work.index.reserve(lanes) : nullptr, -1};
    }

    void reset(Work& work, Maxima<Value>& maxima) const {
        work.spread.reset();
        std::fill_n(maxima.best, work.queries.lanes(), -std::numeric_limits<Value>::infinity());
        if (maxima.index != nullptr) std::fill_n(maxima.index, work.queries.lanes(), Index<Value>{-1});
        maxima.first_kept = -1;
    }

    /// The blocks that come after the one at hand; null: none.
    struct Coming {
        const RowBlock* next;
        const RowBlock* third;
    };

    /// `ready`: the block's rows were widened while the one before was multiplied. Returns that of the next.
    bool fold_block(Work& work, const RowBlock& block, bool ready, Coming coming, std::int64_t tile_rows,
                    const Maxima<Value>& maxima) {
        FoldArgs<Value> args;
        args.dim = documents_.steps();
        args.run = documents_.chain();
        if (ready) work.prepared ^= 1;
        PreparedRows<Value>& rows = work.documents[work.prepared];
        args.rows = raw_halves(work.queries) ? block.rows : (ready ? rows.ready : documents_.prepare(rows, block));
        args.scales = documents_.scaled() ? rows.scales.data() : nullptr;
        args.tokens = block.tokens;
        args.row_count = block.count;
        const std::int64_t tiles = (args.row_count + tile_rows - 1) / tile_rows;
        const std::int64_t chains = tiles * ((args.dim + args.run - 1) / args.run);
        RowsMeanwhile meanwhile;
        const bool widens = widens_meanwhile(work.queries) && coming.next != nullptr && coming.next->count > 0;
        if (widens) {
            meanwhile = documents_.meanwhile(work.documents[work.prepared ^ 1], *coming.next, chains);
            args.meanwhile = &meanwhile;
        }
        const RowBlock* wanted = widens_meanwhile(work.queries) ? coming.third : coming.next;
        if (wanted != nullptr && wanted->count > 0 && !documents_.projected()) fetch_meanwhile(*wanted, chains, args);
        fold_panels(work.queries, args, maxima);
        if (work.queries.split().few > 0) fold_few(work, args);
        widen_until(meanwhile, meanwhile.count);
        return widens;
    }

    /// Wide panels do it.
    bool widens_meanwhile(const QueryBlock<Value>& queries) const {
        return documents_.only_widened() && queries.split().wide > 0;
    }

    /// Has the next block's memory fetched while this one is computed: in the order of addresses, which the memory
    /// system likes best; not where most of what lies between its first and last row is something else.
    void fetch_meanwhile(const RowBlock& next, std::int64_t chains, FoldArgs<Value>& args) const {
        constexpr std::int64_t line = 64;
        const std::int64_t row_bytes = documents_.stored_bytes();
        const std::int64_t span = next.rows[next.count - 1] - next.rows[0] + row_bytes;
        if (span < row_bytes || span > 2 * next.count * row_bytes) return;
        args.ahead = next.rows[0];
        args.ahead_lines = ((span / line + chains) / chains + 3) / 4 * 4;
    }

    void fold_panels(const QueryBlock<Value>& queries, FoldArgs<Value>& args, const Maxima<Value>& maxima) const {
        args.panels = queries.panels();
        args.best = maxima.best;
        args.index = maxima.index;
        args.panel_count = queries.split().wide;
        if (args.panel_count > 0) (in_pairs() ? typed_.fold_paired : typed_.fold_wide)(args);
        if (queries.split().narrow == 0) return;
        const std::int64_t lanes = args.panel_count * 2 * typed_.lanes;
        if (args.panel_count > 0) args.ahead = nullptr;
        args.panels += lanes * panel_height(ops_, params_);
        args.best += lanes;
        if (args.index != nullptr) args.index += lanes;
        args.panel_count = 1;
        typed_.fold_narrow(args);
    }

    void fold_few(Work& work, FoldArgs<Value>& args) const {
        const std::int64_t lanes = work.queries.panel_lanes();
        if (lanes > 0) args.ahead = nullptr;
        args.panels = work.queries.panels() + lanes * panel_height(ops_, params_);
        args.best = work.spread.best();
        args.index = work.spread.index();
        args.panel_count = work.queries.split().few;
        few_kernel(work.queries)(args);
    }

    void write(Work& work, std::int64_t unit, const Maxima<Value>& maxima, double& total) const {
        for (const Piece& piece : work.queries.pieces()) {
            writer_.write(work.queries, piece, schedule_.pair(piece.query, unit), maxima, total, work.similarity);
        }
    }

    void keep(std::int64_t slot, std::int64_t row, std::int64_t rows, const Maxima<Value>& maxima) {
        partial_->first_kept[static_cast<std::size_t>(slot)] = maxima.first_kept;
        const Maxima<Value> to = partial_->at(slot, row);
        std::copy_n(maxima.best, rows, to.best);
        if (indexed_) std::copy_n(maxima.index, rows, to.index);
    }

    void finish_unit(Work& work, std::int64_t unit) {
        double total = 0;
        each_slice(work, schedule_.span(unit, unit + 1), [&](std::int64_t begin) {
            const std::int64_t first = unit * schedule_.parts();
            Maxima<Value> merged = partial_->at(first, begin);
            for (std::int64_t part = 1; part < schedule_.parts(); ++part) {
                merge(merged, partial_->at(first + part, begin), work.queries.rows());
            }
            write(work, unit, merged, total);
        });
    }

    const TileOps& ops_;
    const TypedOps<Value>& typed_;
    const core::Params& params_;
    DocumentRows<Value> documents_;
    ResultWriter<Value> writer_;
    bool indexed_;
    bool spread_tokens_;  ///< similarities are wanted as well: the sign of a zero is that of the first
    Schedule schedule_;
    std::int64_t call_ = new_call_number();
    std::unique_ptr<PartialMaxima<Value>> partial_;
};

}  // namespace

void score(const TileOps& ops, const core::Params& params, const core::Outputs& outputs) {
    if (params.pairs.count == 0) return;
    if (params.dtype == DType::f64) {
        ScoreCall<double>(ops, params, outputs).run();
    } else {
        ScoreCall<float>(ops, params, outputs).run();
    }
}

}  // namespace rowmax::cpu
