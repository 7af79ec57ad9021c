// The sides of an operator on points in a device's memory: what kernels find there, and who puts it there.
#pragma once

#include <cstddef>

#include "core/points.hpp"
#include "cuda/kernels/point_arguments.hpp"
#include "cuda/scratch_layout.hpp"

namespace rowmax::cuda {

const PointKernels& point_kernels_of(const core::PointParams& params);
std::size_t point_value_bytes(const core::PointParams& params);
std::int64_t point_blocks(std::int64_t threads);

/// Points of up to four coordinates as trees and lists hold them: three take the place of four.
std::int64_t held_pitch(const core::PointParams& params);

/// What of a side has to be made in scratch memory.
class PointSideLayout {
  public:
    /// `kept_only`: points that the mask hides are left out; else every row of the storage stays where it is. Rows are
    /// `pitch` numbers apart, zeros behind their coordinates.
    PointSideLayout(const core::PointParams& params, const core::Segments& side, bool kept_only, std::int64_t pitch,
                    ScratchLayout& scratch);
    /// Queues that.
    [[nodiscard]] PointSide make(std::byte* memory) const;

  private:
    [[nodiscard]] bool masked() const { return kept_only_ && side_->mask.data != nullptr; }
    [[nodiscard]] bool in_place() const;
    void gather(const PointSide& made, std::int32_t* positions, void* to) const;

    const core::PointParams* params_;
    const core::Segments* side_;
    bool kept_only_;
    std::int64_t pitch_;
    std::size_t starts_ = 0;
    std::size_t ranks_ = 0;
    std::size_t scan_ = 0;
    std::size_t positions_ = 0;
    std::size_t rows_ = 0;
};

}  // namespace rowmax::cuda
