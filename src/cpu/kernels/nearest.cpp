#include "cpu/kernels/nearest.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/parallel.hpp"
#include "cpu/kernels/kept_points.hpp"
#include "cpu/kernels/point_brute.hpp"
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
        const bool p_by_tree = p.wanted && by_tree(p_, r_, p.k);
        const bool r_by_tree = r.wanted && by_tree(r_, p_, r.k);
        if (p_by_tree || r_by_tree) {
            p_leaves_.emplace(p_.rows(), params_.dim, threads_);
            r_leaves_.emplace(r_.rows(), params_.dim, threads_);
        }
        if (p_by_tree) r_leaves_->add_boxes(threads_);
        if (r_by_tree) p_leaves_->add_boxes(threads_);
        if (p.wanted && r.wanted && !p_by_tree && !r_by_tree && search_both(p, r)) return;
        if (p.wanted) search(p, p_, r_, p_by_tree ? &*p_leaves_ : nullptr, r_leaves_);
        if (r.wanted) search(r, r_, p_, r_by_tree ? &*r_leaves_ : nullptr, p_leaves_);
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

    /// Both directions from the same distances; false where they need lists.
    [[nodiscard]] bool search_both(const NearestOutputs& p, const NearestOutputs& r) const {
        if (p.k > 1 || r.k > 1 || !p_.finite() || !r_.finite()) return false;
        if (p_.count() == 0 || r_.count() == 0) return true;
        const PointResults<Value> to_p(p, p_, r_);
        const PointResults<Value> to_r(r, r_, p_);
        BruteForce<Value>(ops_, params_, p_, r_, to_p).run_both(to_r, threads_);
        return true;
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
    if (!to.wanted) return;
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
