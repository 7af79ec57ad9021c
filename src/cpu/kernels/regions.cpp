#include "cpu/kernels/regions.hpp"

#include <algorithm>
#include <numeric>

namespace rowmax::cpu {

Regions::Regions(const core::Segments& side) : side_(side), separate_(ascending()) {
    if (!separate_) merge_overlapping();
}

// Dense items never share rows of the gradient; packed ones only when their offsets lie.
bool Regions::ascending() const {
    if (side_.kind == core::SegmentKind::strided) return true;
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < side_.count; ++i) {
        const core::Segment s = side_.at(i);
        if (s.first_row < end) return false;
        end = s.first_row + s.length;
    }
    return true;
}

RowRange Regions::rows(std::int64_t region) const {
    if (!separate_) return ranges_[static_cast<std::size_t>(region)];
    const core::Segment s = side_.at(region);
    return {s.first_row, s.first_row + s.length};
}

void Regions::merge_overlapping() {
    std::vector<std::int64_t> order(static_cast<std::size_t>(side_.count));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::int64_t a, std::int64_t b) { return side_.at(a).first_row < side_.at(b).first_row; });
    region_of_item_.resize(order.size());
    for (const std::int64_t item : order) {
        const core::Segment s = side_.at(item);
        if (ranges_.empty() || s.first_row >= ranges_.back().end) ranges_.push_back({s.first_row, s.first_row});
        ranges_.back().end = std::max(ranges_.back().end, s.first_row + s.length);
        region_of_item_[static_cast<std::size_t>(item)] = static_cast<std::int64_t>(ranges_.size()) - 1;
    }
}

}  // namespace rowmax::cpu
