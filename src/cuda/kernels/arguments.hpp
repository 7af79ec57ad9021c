// What every kernel is given, by value.
#pragma once

#include <cuda.h>

#include "core/params.hpp"
#include "cuda/kernels/plan.hpp"

namespace rowmax::cuda {

struct Arguments {
    core::Params params;
    core::Outputs outputs;
    Plan plan;
    int stages = 0;            ///< of each ring of document tiles
    bool own_queries = false;  ///< each warpgroup has query rows of its own, since they work on different blocks
    bool q_by_16 = false;      ///< query tokens can be read 16 bytes at a time
    bool d_by_16 = false;
    bool d_by_loads = false;   ///< the copy engine cannot read documents
    bool d_shifted = false;    ///< then: and some tokens start elsewhere than at multiples of 16 bytes
    bool row_factors = false;  ///< maxima of query rows are multiplied: by one over their norms, or by their scales
    core::Scales q_scales;     ///< of tokens that are codes
    core::Scales d_scales;
};

/// With the tensor maps of the copy engine: boxes of a whole tile and of a quarter.
struct TiledArguments {
    CUtensorMap tile;
    CUtensorMap quarter;
    Arguments call;
};

}  // namespace rowmax::cuda
