// A tree of boxes over one side's points (kernels/point_tree.cuh), as the host plans and queues it.
#pragma once

#include "cuda/kernels/point_tree_arguments.hpp"
#include "cuda/points.hpp"
#include "cuda/radix_sort.hpp"

namespace rowmax::cuda {

/// Whether trees can be built over the points: their coordinates are few, and items leave enough bits for an order.
bool tree_can(const core::PointParams& params);
/// Whether they are built: where the request asks for it, or says nothing and they are worth it.
bool searched_by_tree(const core::PointParams& params, std::int64_t k);

const PointTreeKernels& tree_kernels_of(const core::PointParams& params);

/// Scratch memory of a tree over one side.
class PointTreeLayout {
  public:
    PointTreeLayout(const core::PointParams& params, const core::Segments& side, ScratchLayout& scratch);
    /// Queues its construction over the side's kept points.
    [[nodiscard]] PointTree make(std::byte* memory, const PointSide& side) const;

  private:
    [[nodiscard]] SortLists sort(std::byte* memory, const PointSide& side, const PointBounds* bounds) const;

    const core::PointParams* params_;
    const core::Segments* side_;
    int levels_ = 1;
    std::size_t bounds_ = 0;
    std::size_t sort_ = 0;
    std::size_t points_ = 0;
    std::size_t numbers_ = 0;
    std::size_t boxes_ = 0;
    std::size_t lowest_ = 0;
};

}  // namespace rowmax::cuda
