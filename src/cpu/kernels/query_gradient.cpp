#include "cpu/kernels/query_gradient.hpp"

#include <algorithm>
#include <cstring>

#include "core/parallel.hpp"
#include "cpu/kernels/counting_sort.hpp"
#include "cpu/kernels/gradient_rows.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

template <class Value>
QueryGradient<Value>::QueryGradient(const TileOps& ops, const core::Params& params, const core::Gradients& gradients,
                                    int threads)
    : ops_(ops), params_(params), gradients_(gradients), threads_(threads), regions_(params.q) {
    if (gradients.q == nullptr) return;
    const std::int64_t values = params.q.total_rows * params.dim;
    in_run_.assign(static_cast<std::size_t>(params.q.total_rows), 0);
    std::fill_n(run_.reserve(values), values, Value{0});
    std::fill_n(total_.reserve(values), values, Value{0});
}

template <class Value>
void QueryGradient<Value>::sort_pairs(const WinnerGroups& groups) {
    pairs_.clear();
    for (const RegionWinners& region : groups.regions()) {
        for (std::int64_t i = 0; i < region.pair_count; ++i) pairs_.push_back({region.pairs[i], &region});
    }
    const auto count = static_cast<std::int64_t>(pairs_.size());
    first_.resize(static_cast<std::size_t>(regions_.count() + 1));
    order_.resize(pairs_.size());
    const auto region = [&](std::int64_t i) {
        return regions_.of_item(params_.pairs.query(pairs_[static_cast<std::size_t>(i)].pair));
    };
    counting_sort(count, regions_.count(), region, first_.data(), order_.data());
}

template <class Value>
void QueryGradient<Value>::add(const WinnerGroups& groups, const WinnerRows<Value>& winners) {
    sort_pairs(groups);
    core::parallel_for(threads_, regions_.count(), [&](std::int64_t r) {
        const auto at = static_cast<std::size_t>(r);
        for (std::int64_t i = first_[at]; i < first_[at + 1]; ++i) {
            add_pair(groups, pairs_[static_cast<std::size_t>(order_[static_cast<std::size_t>(i)])], winners);
        }
    });
}

template <class Value>
void QueryGradient<Value>::add_pair(const WinnerGroups& groups, const Pair& pair, const WinnerRows<Value>& winners) {
    const core::Segment query = params_.q.at(params_.pairs.query(pair.pair));
    const Value weight = static_cast<const Value*>(gradients_.scores)[pair.pair];
    for (std::int64_t s = 0; s < query.length; ++s) {
        const Source source = groups.source_of(pair.pair, s);
        if (source.row < 0) continue;
        const std::int64_t number = pair.region->number[static_cast<std::size_t>(source.row - pair.region->rows.begin)];
        const std::int64_t row = query.first_row + s;
        const auto* token = reinterpret_cast<const std::byte*>(winners.rows + number * winners.width);
        typed<Value>(ops_).add_scaled(run_.data() + row * params_.dim, token, weight * winners.factors[number],
                                      params_.dim);
        if (++in_run_[static_cast<std::size_t>(row)] == sources_per_run) close_run(row);
    }
}

template <class Value>
void QueryGradient<Value>::close_run(std::int64_t row) {
    Value* run = run_.data() + row * params_.dim;
    Value* total = total_.data() + row * params_.dim;
    for (std::int64_t k = 0; k < params_.dim; ++k) total[k] += run[k];
    std::fill_n(run, params_.dim, Value{0});
    in_run_[static_cast<std::size_t>(row)] = 0;
}

template <class Value>
void QueryGradient<Value>::finish() {
    const std::int64_t row_bytes = params_.dim * static_cast<std::int64_t>(size_of(params_.dtype));
    auto* out = static_cast<std::byte*>(gradients_.q);
    Buffer<Value> scratch;
    scratch.reserve(params_.dim);
    for (std::int64_t row = 0; row < params_.q.total_rows; ++row) {
        Value* total = total_.data() + row * params_.dim;
        close_run(row);
        const bool zero = std::all_of(total, total + params_.dim, [](Value x) { return x == 0; });
        if (params_.normalize && !zero) {
            through_norm(ops_, params_, stored_row(params_.q, row), total, scratch.data());
        }
        write_row(params_.dtype, total, out + row * row_bytes, params_.dim);
    }
}

template class QueryGradient<float>;
template class QueryGradient<double>;

}  // namespace rowmax::cpu
