#include "cpu/kernels/winners.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "cpu/kernels/counting_sort.hpp"

namespace rowmax::cpu {

WinnerGroups::WinnerGroups(const core::Params& params, const core::Gradients& gradients, std::int64_t most_sources,
                           std::int64_t most_winners, int threads)
    : params_(params),
      gradients_(gradients),
      all_(params.d),
      most_sources_(most_sources),
      most_winners_(most_winners),
      threads_(threads) {
    first_pair_.resize(static_cast<std::size_t>(all_.count() + 1));
    pairs_.resize(static_cast<std::size_t>(params.pairs.count));
    const auto region = [&](std::int64_t p) { return all_.of_item(params_.pairs.document(p)); };
    counting_sort(params.pairs.count, all_.count(), region, first_pair_.data(), pairs_.data());
}

Source WinnerGroups::source_of(std::int64_t pair, std::int64_t position) const {
    Source s{pair, position, -1};
    const std::int32_t token = gradients_.index[pair * params_.q.max_length + position];
    const core::Segment document = params_.d.at(params_.pairs.document(pair));
    const bool chose =
        token >= 0 && token < document.length && position < params_.q.at(params_.pairs.query(pair)).length;
    if (chose) s.row = document.first_row + token;
    return s;
}

Source WinnerGroups::source(const RegionWinners& region, std::int64_t number) const {
    return source_of(region.pairs[number / params_.q.max_length], number % params_.q.max_length);
}

bool WinnerGroups::next() {
    choose_regions();
    if (group_.empty()) return false;
    core::parallel_for(threads_, static_cast<std::int64_t>(group_.size()),
                       [&](std::int64_t r) { sort(group_[static_cast<std::size_t>(r)]); });
    number_winners();
    return true;
}

void WinnerGroups::choose_regions() {
    group_.clear();
    std::int64_t sources = 0;
    std::int64_t winners = 0;
    for (; region_ < all_.count(); ++region_) {
        RegionWinners region;
        const auto r = static_cast<std::size_t>(region_);
        region.rows = all_.rows(region_);
        region.pairs = pairs_.data() + first_pair_[r];
        region.pair_count = first_pair_[r + 1] - first_pair_[r];
        const std::int64_t mine = region.pair_count * params_.q.max_length;
        if (mine == 0 || region.rows.begin == region.rows.end) continue;
        sources += mine;
        winners += std::min(mine, region.rows.end - region.rows.begin);
        if (!group_.empty() && (sources > most_sources_ || winners > most_winners_)) return;
        group_.push_back(std::move(region));
    }
}

void WinnerGroups::sort(RegionWinners& region) const {
    const std::int64_t rows = region.rows.end - region.rows.begin;
    const std::int64_t count = region.pair_count * params_.q.max_length;
    region.starts.resize(static_cast<std::size_t>(rows + 1));
    region.sources.resize(static_cast<std::size_t>(count));
    region.number.assign(static_cast<std::size_t>(rows), -1);
    const auto destination = [&](std::int64_t n) {
        const std::int64_t row = source(region, n).row;
        return row < 0 ? row : row - region.rows.begin;
    };
    counting_sort(count, rows, destination, region.starts.data(), region.sources.data());
}

void WinnerGroups::number_winners() {
    winners_.clear();
    for (std::size_t r = 0; r < group_.size(); ++r) {
        RegionWinners& region = group_[r];
        for (std::size_t row = 0; row < region.number.size(); ++row) {
            if (region.starts[row] == region.starts[row + 1]) continue;
            region.number[row] = static_cast<std::int32_t>(winners_.size());
            winners_.push_back({region.rows.begin + static_cast<std::int64_t>(row), static_cast<std::int64_t>(r)});
        }
    }
}

}  // namespace rowmax::cpu
