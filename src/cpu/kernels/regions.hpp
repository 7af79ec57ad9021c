// Regions of token storage that no two gradient tasks share: one per item, or one for all items that overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "core/params.hpp"

namespace rowmax::cpu {

struct RowRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

class Regions {
  public:
    explicit Regions(const core::Segments& side);

    [[nodiscard]] std::int64_t count() const { return separate_ ? side_.count : std::int64_t(ranges_.size()); }
    /// Rows of the storage, as Segment::first_row counts them.
    [[nodiscard]] RowRange rows(std::int64_t region) const;
    [[nodiscard]] std::int64_t of_item(std::int64_t item) const {
        return separate_ ? item : region_of_item_[static_cast<std::size_t>(item)];
    }

  private:
    [[nodiscard]] bool ascending() const;
    void merge_overlapping();

    const core::Segments& side_;
    bool separate_;
    std::vector<RowRange> ranges_;
    std::vector<std::int64_t> region_of_item_;
};

/// The token that row `row` of a gradient belongs to.
inline const std::byte* stored_row(const core::Segments& side, std::int64_t row) {
    if (side.kind != core::SegmentKind::strided) return side.data + row * side.row_stride;
    return side.at(row / side.length).data + row % side.length * side.row_stride;
}

}  // namespace rowmax::cpu
