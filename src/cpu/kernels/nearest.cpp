#include "cpu/kernels/nearest.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/kernels/kept_points.hpp"
#include "cpu/kernels/point_leaves.hpp"
#include "cpu/kernels/point_results.hpp"
#include "cpu/nearest_tuning.hpp"

namespace rowmax::cpu {

namespace {

template <class Value>
const TypedPointOps<Value>& typed(const PointOps& ops) {
    if constexpr (std::is_same_v<Value, float>) {
        return ops.f32;
    } else {
        return ops.f64;
    }
}

/// What a thread keeps for the panels of a task.
template <class Value>
struct PanelScratch {
    Buffer<Value> panels;
    Buffer<Value> distance;  ///< [panel][lanes], or [panel][lanes][k] of lists
    Buffer<Index<Value>> index;
    Buffer<std::int32_t> list_index;
    Buffer<NeighbourList<Value>> lists;
    Buffer<Value> limits;
};

template <class Value>
PanelScratch<Value>& panel_scratch() {
    static thread_local PanelScratch<Value> mine;
    return mine;
}

/// Every pair of one item's sources and targets.
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
          lists_(results.k() > 1 || !sources.finite() || !targets.finite()) {}

    void run(int threads) const {
        // Fewer panels a task where all threads would not have one.
        const std::int64_t all = (sources_.count() + lanes_ - 1) / lanes_;
        const std::int64_t step = std::max<std::int64_t>(std::min(panels_, all / threads), 1);
        core::parallel_for(threads, (all + step - 1) / step,
                           [&](std::int64_t task) { run_task(task * step, std::min((task + 1) * step, all)); });
    }

  private:
    void run_task(std::int64_t first, std::int64_t end) const {
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
        fold_all(mine, end - first);
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

    void fold_all(PanelScratch<Value>& mine, std::int64_t panels) const {
        const PointRows<Value>& rows = targets_.rows();
        const std::int64_t block = targets_of_block(dim_, sizeof(Value));
        for (std::int64_t first = 0; first < rows.count; first += block) {
            PointFold<Value> fold;
            fold.dim = dim_;
            fold.first = first;
            fold.targets = {rows.data + first * rows.stride, rows.stride, std::min(block, rows.count - first)};
            for (std::int64_t panel = 0; panel < panels; ++panel) {
                fold.panel = mine.panels.data() + panel * lanes_ * dim_;
                const std::int64_t at = panel * lanes_;
                if (lists_) {
                    ops_.fold_lists[metric_](fold, mine.lists.data() + at, mine.limits.data() + at);
                } else {
                    ops_.fold[metric_](fold, mine.distance.data() + at, mine.index.data() + at);
                }
            }
        }
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
    std::int64_t panels_;
    bool lists_;
};

/// One item: its points, and the trees that its directions share.
template <class Value>
class PointItem {
  public:
    PointItem(const PointOps& ops, const core::PointParams& params, std::int64_t item, int threads)
        : ops_(typed<Value>(ops)),
          params_(params),
          p_(params, params.p, item),
          r_(params, params.r, item),
          threads_(threads) {}

    void run(const NearestOutputs& p, const NearestOutputs& r) {
        const bool p_by_tree = p.distance != nullptr && by_tree(p_, r_, p.k);
        const bool r_by_tree = r.distance != nullptr && by_tree(r_, p_, r.k);
        if (p_by_tree || r_by_tree) {
            p_leaves_.emplace(p_.rows(), params_.dim, threads_);
            r_leaves_.emplace(r_.rows(), params_.dim, threads_);
        }
        if (p_by_tree) r_leaves_->add_boxes(threads_);
        if (r_by_tree) p_leaves_->add_boxes(threads_);
        if (p.distance != nullptr) search(p, p_, r_, p_by_tree ? &*p_leaves_ : nullptr, r_leaves_);
        if (r.distance != nullptr) search(r, r_, p_, r_by_tree ? &*r_leaves_ : nullptr, p_leaves_);
    }

  private:
    using Leaves = PointLeaves<Value>;

    [[nodiscard]] bool by_tree(const KeptPoints<Value>& sources, const KeptPoints<Value>& targets,
                               std::int64_t k) const {
        const bool can = params_.dim <= core::most_tree_dims && sources.finite() && targets.finite();
        if (!can || params_.search == PointSearch::brute) return false;
        return params_.search == PointSearch::tree || tree_pays(sources.count(), targets.count(), params_.dim, k);
    }

    void search(const NearestOutputs& to, const KeptPoints<Value>& sources, const KeptPoints<Value>& targets,
                const Leaves* ordered, const std::optional<Leaves>& tree) const {
        if (sources.count() == 0 || targets.count() == 0) return;
        const PointResults<Value> results(to, sources, targets);
        if (ordered != nullptr) {
            search_tree(results, sources.count(), *ordered, tree->tree());
        } else {
            BruteForce<Value>(ops_, params_, sources, targets, results).run(threads_);
        }
    }

    void search_tree(const PointResults<Value>& results, std::int64_t sources, const Leaves& ordered,
                     const PointTree<Value>& tree) const {
        const std::int64_t k = results.k();
        const auto numbers = static_cast<std::size_t>(sources * k);
        const auto distance = std::make_unique_for_overwrite<Value[]>(numbers);
        const auto nearest = std::make_unique_for_overwrite<std::int32_t[]>(numbers);
        const std::int64_t tasks = (ordered.count() + leaves_of_task - 1) / leaves_of_task;
        core::parallel_for(threads_, tasks, [&](std::int64_t task) {
            TreeQueries<Value> queries;
            queries.points = ordered.points();
            queries.index = ordered.index();
            queries.first = task * leaves_of_task;
            queries.end = std::min(queries.first + leaves_of_task, ordered.count());
            queries.k = k;
            queries.distance = distance.get();
            queries.nearest = nearest.get();
            ops_.search[params_.metric == Metric::l2_sq ? 0 : 1](tree, queries);
        });
        constexpr std::int64_t step = 4096;
        core::parallel_for(threads_, (sources + step - 1) / step, [&](std::int64_t task) {
            for (std::int64_t s = task * step; s < std::min((task + 1) * step, sources); ++s) {
                for (std::int64_t i = s * k; i < (s + 1) * k && nearest[static_cast<std::size_t>(i)] != no_point; ++i)
                    results.write(s, i - s * k, distance[static_cast<std::size_t>(i)],
                                  nearest[static_cast<std::size_t>(i)]);
            }
        });
    }

    const TypedPointOps<Value>& ops_;
    const core::PointParams& params_;
    KeptPoints<Value> p_;
    KeptPoints<Value> r_;
    int threads_;
    std::optional<Leaves> p_leaves_;
    std::optional<Leaves> r_leaves_;
};

template <class Value>
void clear(const NearestOutputs& to, std::int64_t rows) {
    if (to.distance == nullptr) return;
    std::fill_n(static_cast<Value*>(to.distance), rows * to.k, static_cast<Value>(to.none));
    if (to.index != nullptr) std::fill_n(to.index, rows * to.k, std::int64_t{-1});
}

template <class Value>
void run_items(const PointOps& ops, const core::PointParams& params, const NearestOutputs& p, const NearestOutputs& r) {
    clear<Value>(p, params.p.total_rows);
    clear<Value>(r, params.r.total_rows);
    const auto terms = [&](std::int64_t item) {
        return static_cast<double>(params.p.at(item).length) * static_cast<double>(params.r.at(item).length) *
               static_cast<double>(params.dim);
    };
    double all = 0;
    for (std::int64_t i = 0; i < params.p.count; ++i) all += terms(i);
    const int allowed = core::thread_count(params.threads);
    const int threads = std::clamp(static_cast<int>(std::min<double>(allowed, all / terms_per_thread)), 1, allowed);
    // Items that would keep one thread busy while the others wait are shared out.
    std::vector<std::int64_t> small;
    for (std::int64_t i = 0; i < params.p.count; ++i) {
        if (threads > 1 && terms(i) * 2 * threads >= all) {
            PointItem<Value>(ops, params, i, threads).run(p, r);
        } else {
            small.push_back(i);
        }
    }
    core::parallel_for(threads, static_cast<std::int64_t>(small.size()), [&](std::int64_t i) {
        PointItem<Value>(ops, params, small[static_cast<std::size_t>(i)], 1).run(p, r);
    });
}

}  // namespace

void nearest(const PointOps& ops, const core::PointParams& params, const NearestOutputs& p, const NearestOutputs& r) {
    if (params.dtype == DType::f64) {
        run_items<double>(ops, params, p, r);
    } else {
        run_items<float>(ops, params, p, r);
    }
}

}  // namespace rowmax::cpu
