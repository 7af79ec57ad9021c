// Gradients of distances to nearest points.
#pragma once

#include <cstdint>
#include <vector>

#include "core/points.hpp"

namespace rowmax::cpu {

/// What one direction adds: sources chose targets, and each choice has a weight.
struct ChosenPoints {
    bool reversed = false;                ///< points of R chose points of P
    const std::int64_t* index = nullptr;  ///< [rows of the sources' storage, k]; null: this direction adds nothing
    std::int64_t k = 1;
    const void* weight = nullptr;   ///< of the type of results, one a choice; null: none
    const void* of_item = nullptr;  ///< the same, one an item; joins the other
    bool mean = false;              ///< of_item is divided by the number of the item's kept sources
};

/// Gradients of sum(weight * distance) over both directions, rounded once to the points' type; null: not wanted.
void nearest_backward(const core::PointParams& params, const ChosenPoints& p, const ChosenPoints& r, void* grad_p,
                      void* grad_r);

}  // namespace rowmax::cpu
