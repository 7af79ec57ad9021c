// Operators on points as a backend offers them: requests that are checked, raw memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/points.hpp"

namespace rowmax::core {

/// Where the results of one direction go, for all rows of the sources' storage: [rows, k] of the type of results.
struct NearestOutputs {
    bool wanted = false;
    void* distance = nullptr;  ///< may be null where a Chamfer distance is wanted alone
    std::int64_t* index = nullptr;
    std::int64_t k = 1;
    double none = 0;  ///< the distance where there is no target
};

/// `p`: for points of P the nearest of R; `r` the other way round. `value`: of the items, both directions together.
struct ChamferOutputs {
    NearestOutputs p;
    NearestOutputs r;
    void* value = nullptr;
    bool mean = false;
};

/// What one direction adds to gradients: sources chose targets, and each choice has a weight.
struct ChosenPoints {
    bool reversed = false;                ///< points of R chose points of P
    const std::int64_t* index = nullptr;  ///< [rows of the sources' storage, k]; null: this direction adds nothing
    std::int64_t k = 1;
    const void* weight = nullptr;   ///< of the type of results, one a choice; null: none
    const void* of_item = nullptr;  ///< the same, one an item; joins the other
    bool mean = false;              ///< of_item is divided by the number of the item's kept sources
};

/// Gradients of sum(weight * distance) over both directions, rounded once to the points' type; null: not wanted.
struct PointGradients {
    ChosenPoints p;
    ChosenPoints r;
    void* grad_p = nullptr;
    void* grad_r = nullptr;
};

struct PointBackend {
    /// `kernel`: of PointOptions.
    void (*nearest)(const PointParams&, std::string_view kernel, const ChamferOutputs&);
    void (*backward)(const PointParams&, const PointGradients&);
    /// Bytes of scratch memory that these find at Place::workspace; null: none.
    std::size_t (*nearest_workspace)(const PointParams&, const ChamferOutputs&) = nullptr;
    std::size_t (*backward_workspace)(const PointParams&, const PointGradients&) = nullptr;
};

const PointBackend& cpu_points();
const PointBackend* cuda_points();  ///< null in a build without CUDA (src/no_cuda)

}  // namespace rowmax::core
