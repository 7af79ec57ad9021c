// The gradient of a point is a sum over the choices that it has part in:
//
//     as a source       its own k targets, in order
//     as a target       the sources that chose it, ascending, in runs of 256: each run starting from zero, the runs in
//     order
//
// Choices are grouped by target (a counting sort: the inverse grid), item by item, so that every row has one owner.
// Different threads may take the runs of a target that very many chose. So the bits depend on neither threads nor
// schedule.
#include "cpu/kernels/nearest_backward.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/parallel.hpp"
#include "core/token_rows.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/counting_sort.hpp"
#include "cpu/kernels/gradient_rows.hpp"
#include "cpu/nearest_tuning.hpp"

namespace rowmax::cpu {

namespace {

constexpr std::int64_t choices_per_run = 256;

/// One direction of one item.
template <class Value>
class Choices {
  public:
    Choices(const core::PointParams& params, const ChosenPoints& chosen, std::int64_t item)
        : chosen_(chosen),
          sources_((chosen.reversed ? params.r : params.p).at(item)),
          targets_((chosen.reversed ? params.p : params.r).at(item)) {
        if (chosen.of_item == nullptr) return;
        of_item_ = static_cast<const Value*>(chosen.of_item)[item];
        if (chosen.mean) of_item_ = mean(chosen.reversed ? params.r : params.p);
    }

    [[nodiscard]] std::int64_t count() const { return sources_.length * chosen_.k; }
    [[nodiscard]] std::int64_t source(std::int64_t choice) const { return choice / chosen_.k; }
    [[nodiscard]] std::int64_t k() const { return chosen_.k; }
    /// -1 where nothing was chosen, or the index lies.
    [[nodiscard]] std::int64_t target(std::int64_t choice) const {
        const std::int64_t at = chosen_.index[sources_.first_row * chosen_.k + choice];
        return at >= 0 && at < targets_.length ? at : -1;
    }
    [[nodiscard]] Value weight(std::int64_t choice) const {
        if (chosen_.weight == nullptr) return of_item_;
        const Value own = static_cast<const Value*>(chosen_.weight)[sources_.first_row * chosen_.k + choice];
        return chosen_.of_item == nullptr ? own : own + of_item_;
    }

  private:
    [[nodiscard]] Value mean(const core::Segments& side) const {
        std::int64_t kept = 0;
        for (std::int64_t s = 0; s < sources_.length; ++s) kept += side.keeps(sources_, s) ? 1 : 0;
        return static_cast<Value>(double{of_item_} / static_cast<double>(std::max<std::int64_t>(kept, 1)));
    }

    const ChosenPoints& chosen_;
    core::Segment sources_;
    core::Segment targets_;
    Value of_item_ = 0;
};

/// The rows of one side of an item.
class ItemRows {
  public:
    ItemRows(const core::PointParams& params, const core::Segments& side, std::int64_t item)
        : params_(params), side_(side), segment_(side.at(item)) {}
    [[nodiscard]] std::int64_t count() const { return segment_.length; }
    [[nodiscard]] std::int64_t first_row() const { return segment_.first_row; }
    template <class Value>
    [[nodiscard]] const Value* at(std::int64_t t, Value* scratch) const {
        return core::row_as<Value>(segment_.data + t * side_.row_stride, params_.dtype, params_.dim, scratch);
    }

  private:
    const core::PointParams& params_;
    const core::Segments& side_;
    core::Segment segment_;
};

template <class Value>
struct GradientScratch {
    Buffer<Value> sum;
    Buffer<Value> part;
    Buffer<Value> own;
    Buffer<Value> other;
};

template <class Value>
GradientScratch<Value>& gradient_scratch(std::int64_t dim) {
    static thread_local GradientScratch<Value> mine;
    for (Buffer<Value>* buffer : {&mine.sum, &mine.part, &mine.own, &mine.other}) buffer->reserve(dim);
    return mine;
}

/// The gradient of one side of one item.
template <class Value>
class PointGradient {
  public:
    /// `made`: the choices of this side's points; `received`: those that chose them.
    PointGradient(const core::PointParams& params, const core::Segments& own, const core::Segments& other,
                  std::int64_t item, const ChosenPoints& made, const ChosenPoints& received, std::byte* to)
        : params_(params), dim_(params.dim), own_(params, own, item), other_(params, other, item), to_(to) {
        if (made.index != nullptr) made_.emplace(params, made, item);
        if (received.index != nullptr) received_.emplace(params, received, item);
    }

    void run(int threads) {
        if (received_) sort();
        share_runs(threads);
        constexpr std::int64_t step = 1024;
        core::parallel_for(threads, (own_.count() + step - 1) / step, [&](std::int64_t task) {
            for (std::int64_t t = task * step; t < std::min((task + 1) * step, own_.count()); ++t) run_row(t);
        });
    }

  private:
    /// A target's run that is added up before the rows, by any thread.
    struct SharedRun {
        std::int64_t target = 0;
        std::int64_t begin = 0;
    };
    struct SharedTarget {
        std::int64_t target = 0;
        std::int64_t part = 0;  ///< where its parts begin
    };

    void sort() {
        starts_.resize(static_cast<std::size_t>(own_.count() + 1));
        choices_.resize(static_cast<std::size_t>(received_->count()));
        counting_sort(
            received_->count(), own_.count(), [&](std::int64_t c) { return received_->target(c); }, starts_.data(),
            choices_.data());
    }

    [[nodiscard]] std::int64_t start(std::int64_t t) const { return starts_[static_cast<std::size_t>(t)]; }
    [[nodiscard]] bool shared(std::int64_t t) const {
        return start(t + 1) - start(t) >= least_shared_runs * choices_per_run;
    }

    void share_runs(int threads) {
        if (!received_) return;
        std::vector<SharedRun> runs;
        for (std::int64_t t = 0; t < own_.count(); ++t) {
            if (!shared(t)) continue;
            first_part_.push_back({t, static_cast<std::int64_t>(runs.size())});
            for (std::int64_t begin = start(t); begin < start(t + 1); begin += choices_per_run)
                runs.push_back({t, begin});
        }
        const auto count = static_cast<std::int64_t>(runs.size());
        if (count == 0) return;
        parts_.reserve(count * dim_);
        core::parallel_for(threads, count, [&](std::int64_t i) {
            const SharedRun& run = runs[static_cast<std::size_t>(i)];
            GradientScratch<Value>& mine = gradient_scratch<Value>(dim_);
            const Value* own = own_.at(run.target, mine.own.data());
            sum_run(own, run.begin, start(run.target + 1), parts_.data() + i * dim_, mine.other.data());
        });
    }

    void run_row(std::int64_t t) {
        GradientScratch<Value>& mine = gradient_scratch<Value>(dim_);
        Value* sum = mine.sum.data();
        std::fill_n(sum, dim_, Value{0});
        const Value* own = own_.at(t, mine.own.data());
        if (made_) {
            for (std::int64_t c = t * made_->k(); c < (t + 1) * made_->k(); ++c) {
                const std::int64_t target = made_->target(c);
                if (target >= 0) add(own, other_.at(target, mine.other.data()), made_->weight(c), sum);
            }
        }
        if (received_) add_received(t, own, mine);
        const std::int64_t bytes = dim_ * static_cast<std::int64_t>(size_of(params_.dtype));
        write_row(params_.dtype, sum, to_ + (own_.first_row() + t) * bytes, dim_);
    }

    void add_received(std::int64_t t, const Value* own, GradientScratch<Value>& mine) {
        if (start(t) == start(t + 1)) return;
        const Value* ready = shared(t) ? parts_.data() + first_part(t) * dim_ : nullptr;
        for (std::int64_t begin = start(t); begin < start(t + 1); begin += choices_per_run) {
            if (ready == nullptr) sum_run(own, begin, start(t + 1), mine.part.data(), mine.other.data());
            const Value* part = ready == nullptr ? mine.part.data() : ready;
            for (std::int64_t k = 0; k < dim_; ++k) mine.sum[k] += part[k];
            if (ready != nullptr) ready += dim_;
        }
    }

    [[nodiscard]] std::int64_t first_part(std::int64_t t) const {
        const auto at =
            std::lower_bound(first_part_.begin(), first_part_.end(), t,
                             [](const SharedTarget& shared, std::int64_t target) { return shared.target < target; });
        return at->part;
    }

    void sum_run(const Value* own, std::int64_t begin, std::int64_t end, Value* part, Value* scratch) const {
        std::fill_n(part, dim_, Value{0});
        for (std::int64_t i = begin; i < std::min(begin + choices_per_run, end); ++i) {
            const std::int64_t choice = choices_[static_cast<std::size_t>(i)];
            add(own, other_.at(received_->source(choice), scratch), received_->weight(choice), part);
        }
    }

    /// sum += weight * derivative of the distance by x. That of l1 is 0 where coordinates are equal.
    void add(const Value* x, const Value* y, Value weight, Value* sum) const {
        if (params_.metric == Metric::l2_sq) {
            for (std::int64_t k = 0; k < dim_; ++k) sum[k] += 2 * weight * (x[k] - y[k]);
            return;
        }
        for (std::int64_t k = 0; k < dim_; ++k) {
            const Value d = x[k] - y[k];
            sum[k] += d > 0 ? weight : (d < 0 ? -weight : d * weight);  // NaN stays NaN
        }
    }

    const core::PointParams& params_;
    std::int64_t dim_;
    ItemRows own_;
    ItemRows other_;
    std::byte* to_;
    std::optional<Choices<Value>> made_;
    std::optional<Choices<Value>> received_;
    std::vector<std::int64_t> starts_;  ///< the inverse grid: choices_[starts_[t]] .. chose target t, ascending
    std::vector<std::int64_t> choices_;
    std::vector<SharedTarget> first_part_;  ///< ascending
    Buffer<Value> parts_;                   ///< sums of shared runs
};

template <class Value>
void run_side(const core::PointParams& params, bool reversed, const ChosenPoints& made, const ChosenPoints& received,
              void* gradient) {
    const core::Segments& own = reversed ? params.r : params.p;
    const core::Segments& other = reversed ? params.p : params.r;
    auto* to = static_cast<std::byte*>(gradient);
    std::memset(to, 0, static_cast<std::size_t>(own.total_rows * params.dim) * size_of(params.dtype));
    const auto terms = [&](std::int64_t item) {
        return static_cast<double>(own.at(item).length + other.at(item).length) * static_cast<double>(params.dim);
    };
    double all = 0;
    for (std::int64_t i = 0; i < own.count; ++i) all += terms(i);
    const int allowed = core::thread_count(params.threads);
    const int threads = std::clamp(static_cast<int>(std::min<double>(allowed, all * 8 / terms_per_thread)), 1, allowed);
    const auto run = [&](std::int64_t item, int several) {
        PointGradient<Value>(params, own, other, item, made, received, to).run(several);
    };
    std::vector<std::int64_t> small;
    for (std::int64_t i = 0; i < own.count; ++i) {
        if (threads > 1 && terms(i) * 2 * threads >= all) {
            run(i, threads);
        } else {
            small.push_back(i);
        }
    }
    core::parallel_for(threads, static_cast<std::int64_t>(small.size()),
                       [&](std::int64_t i) { run(small[static_cast<std::size_t>(i)], 1); });
}

template <class Value>
void run_sides(const core::PointParams& params, const ChosenPoints& p, const ChosenPoints& r, void* grad_p,
               void* grad_r) {
    if (grad_p != nullptr) run_side<Value>(params, false, p, r, grad_p);
    if (grad_r != nullptr) run_side<Value>(params, true, r, p, grad_r);
}

}  // namespace

void nearest_backward(const core::PointParams& params, const ChosenPoints& p, const ChosenPoints& r, void* grad_p,
                      void* grad_r) {
    if (params.dtype == DType::f64) {
        run_sides<double>(params, p, r, grad_p, grad_r);
    } else {
        run_sides<float>(params, p, r, grad_p, grad_r);
    }
}

}  // namespace rowmax::cpu
