// Every pair of one item's sources and targets: panels of sources against blocks of targets (point_fold.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/kept_points.hpp"
#include "cpu/kernels/point_results.hpp"
#include "cpu/nearest_tuning.hpp"

namespace rowmax::cpu {

/// What a thread keeps for the panels of a task.
template <class Value>
struct PanelScratch {
    Buffer<Value> panels;
    Buffer<Value> distance;  ///< [panel][lanes], or [panel][lanes][k] of lists
    Buffer<Index<Value>> index;
    Buffer<std::int32_t> list_index;
    Buffer<NeighbourList<Value>> lists;
    Buffer<Value> limits;
    Buffer<Value> columns;  ///< [target of a block][lanes of a vector]
    Buffer<Index<Value>> column_sources;
};

/// The nearest source of every target, among those of some panels.
template <class Value>
struct ColumnBest {
    Buffer<Value> least;
    Buffer<std::int32_t> source;

    void take(std::int64_t target, Value distance, std::int32_t number) {
        if (!(distance < least[target])) return;
        least[target] = distance;
        source[target] = number;
    }
};

template <class Value>
PanelScratch<Value>& panel_scratch() {
    static thread_local PanelScratch<Value> mine;
    return mine;
}

template <class Value>
class BruteForce {
  public:
    BruteForce(const TypedPointOps<Value>& ops, const core::PointParams& params, const KeptPoints<Value>& sources,
               const KeptPoints<Value>& targets, const PointResults<Value>& results)
        : ops_(ops),
          dim_(params.dim),
          metric_(params.metric == Metric::l2_sq ? 0 : 1),
          sources_(sources),
          targets_(targets),
          results_(results),
          lanes_(ops.panel_lanes),
          panels_(panels_of_task(dim_, sizeof(Value), lanes_)),
          all_panels_((sources.count() + lanes_ - 1) / lanes_),
          lists_(results.k() > 1 || !sources.finite() || !targets.finite()) {}

    void run(int threads) const {
        // Fewer panels a task where all threads would not have one.
        const std::int64_t step = std::max<std::int64_t>(std::min(panels_, all_panels_ / threads), 1);
        core::parallel_for(threads, (all_panels_ + step - 1) / step, [&](std::int64_t task) {
            run_task(task * step, std::min((task + 1) * step, all_panels_), nullptr);
        });
    }

    /// Finite points, k = 1: also for targets the nearest of the sources, from the same distances.
    void run_both(const PointResults<Value>& back, int threads) const {
        const std::int64_t groups = threads == 1 ? 1 : std::min<std::int64_t>(all_panels_, 2 * std::int64_t{threads});
        std::vector<ColumnBest<Value>> found(static_cast<std::size_t>(groups));
        core::parallel_for(threads, groups, [&](std::int64_t g) {
            const std::int64_t begin = all_panels_ * g / groups;
            const std::int64_t end = all_panels_ * (g + 1) / groups;
            ColumnBest<Value>& mine = found[static_cast<std::size_t>(g)];
            const std::int64_t count = targets_.count();
            std::fill_n(mine.least.reserve(count), count, std::numeric_limits<Value>::infinity());
            std::fill_n(mine.source.reserve(count), count, static_cast<std::int32_t>(begin * lanes_));
            for (std::int64_t first = begin; first < end; first += panels_)
                run_task(first, std::min(first + panels_, end), &mine);
        });
        // Groups hold ascending sources, so the first of equals is the lowest.
        for (std::int64_t t = 0; t < targets_.count(); ++t) {
            ColumnBest<Value>& best = found.front();
            for (const ColumnBest<Value>& group : found) best.take(t, group.least[t], group.source[t]);
            back.write(t, 0, best.least[t], best.source[t]);
        }
    }

  private:
    void run_task(std::int64_t first, std::int64_t end, ColumnBest<Value>* back) const {
        PanelScratch<Value>& mine = panel_scratch<Value>();
        const std::int64_t count = (end - first) * lanes_;
        mine.panels.reserve(count * dim_);
        for (std::int64_t panel = first; panel < end; ++panel)
            pack(panel * lanes_, mine.panels.data() + (panel - first) * lanes_ * dim_);
        if (lists_) {
            begin_lists(mine, count);
        } else {
            std::fill_n(mine.distance.reserve(count), count, std::numeric_limits<Value>::infinity());
            std::fill_n(mine.index.reserve(count), count, Index<Value>{0});
        }
        if (back == nullptr) {
            fold_all(mine, end - first);
        } else {
            fold_all_both(mine, first, end, *back);
        }
        const std::int64_t sources = std::min(count, sources_.count() - first * lanes_);
        for (std::int64_t s = 0; s < sources; ++s) write(mine, s, first * lanes_ + s);
    }

    /// Sources from `first` on as [dim][lanes]; the last repeated.
    void pack(std::int64_t first, Value* panel) const {
        const PointRows<Value>& rows = sources_.rows();
        for (std::int64_t lane = 0; lane < lanes_; ++lane) {
            const Value* row = rows.data + std::min(first + lane, rows.count - 1) * rows.stride;
            for (std::int64_t k = 0; k < dim_; ++k) panel[k * lanes_ + lane] = row[k];
        }
    }

    void begin_lists(PanelScratch<Value>& mine, std::int64_t count) const {
        const std::int64_t k = kept();
        Value* distance = mine.distance.reserve(count * k);
        std::int32_t* index = mine.list_index.reserve(count * k);
        NeighbourList<Value>* lists = mine.lists.reserve(count);
        for (std::int64_t i = 0; i < count; ++i) lists[i] = {distance + i * k, index + i * k, k, 0};
        std::fill_n(mine.limits.reserve(count), count, std::numeric_limits<Value>::quiet_NaN());
    }

    /// Calls f(fold without a panel) for all targets, block by block.
    template <class F>
    void for_blocks(std::int64_t block, F f) const {
        const PointRows<Value>& rows = targets_.rows();
        for (std::int64_t first = 0; first < rows.count; first += block) {
            PointFold<Value> fold;
            fold.dim = dim_;
            fold.first = first;
            fold.targets = {rows.data + first * rows.stride, rows.stride, std::min(block, rows.count - first)};
            f(fold);
        }
    }

    void fold_all(PanelScratch<Value>& mine, std::int64_t panels) const {
        for_blocks(targets_of_block(dim_, sizeof(Value)), [&](PointFold<Value>& fold) {
            for (std::int64_t panel = 0; panel < panels; ++panel) {
                fold.panel = mine.panels.data() + panel * lanes_ * dim_;
                const std::int64_t at = panel * lanes_;
                if (lists_) {
                    ops_.fold_lists[metric_](fold, mine.lists.data() + at, mine.limits.data() + at);
                } else {
                    ops_.fold[metric_](fold, mine.distance.data() + at, mine.index.data() + at);
                }
            }
        });
    }

    void fold_all_both(PanelScratch<Value>& mine, std::int64_t first, std::int64_t end, ColumnBest<Value>& back) const {
        const std::int64_t block = std::min(targets_of_block(dim_, sizeof(Value)), most_column_targets);
        PointColumns<Value> columns;
        columns.least = mine.columns.reserve(block * ops_.lanes);
        columns.source = mine.column_sources.reserve(block * ops_.lanes);
        for_blocks(block, [&](PointFold<Value>& fold) {
            const std::int64_t numbers = fold.targets.count * ops_.lanes;
            std::fill_n(columns.least, numbers, std::numeric_limits<Value>::infinity());
            std::fill_n(columns.source, numbers, static_cast<Index<Value>>(first * lanes_));
            for (std::int64_t panel = first; panel < end; ++panel) {
                const std::int64_t at = (panel - first) * lanes_;
                fold.panel = mine.panels.data() + at * dim_;
                columns.first = static_cast<Index<Value>>(panel * lanes_);
                ops_.fold_both[metric_](fold, mine.distance.data() + at, mine.index.data() + at, columns);
            }
            for (std::int64_t t = 0; t < fold.targets.count; ++t) reduce(columns, fold.first, t, back);
        });
    }

    /// The nearest of a target's lanes, the lowest source among equals.
    void reduce(const PointColumns<Value>& columns, std::int64_t first, std::int64_t t, ColumnBest<Value>& back) const {
        const Value* least = columns.least + t * ops_.lanes;
        const Index<Value>* source = columns.source + t * ops_.lanes;
        const Value nearest = *std::min_element(least, least + ops_.lanes);
        std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
        for (std::int64_t lane = 0; lane < ops_.lanes; ++lane) {
            if (least[lane] == nearest) lowest = std::min<std::int64_t>(lowest, source[lane] + lane);
        }
        back.take(first + t, nearest, static_cast<std::int32_t>(lowest));
    }

    void write(const PanelScratch<Value>& mine, std::int64_t lane, std::int64_t source) const {
        if (!lists_) return results_.write(source, 0, mine.distance[lane], mine.index[lane]);
        const NeighbourList<Value>& list = mine.lists[lane];
        for (std::int64_t j = 0; j < list.count; ++j) results_.write(source, j, list.distance[j], list.index[j]);
    }

    [[nodiscard]] std::int64_t kept() const { return std::min(results_.k(), targets_.count()); }

    const TypedPointOps<Value>& ops_;
    std::int64_t dim_;
    int metric_;
    const KeptPoints<Value>& sources_;
    const KeptPoints<Value>& targets_;
    const PointResults<Value>& results_;
    std::int64_t lanes_;
    std::int64_t panels_;  ///< of a task
    std::int64_t all_panels_;
    bool lists_;
};

}  // namespace rowmax::cpu
