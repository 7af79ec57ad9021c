// Operators on an index as a backend offers them: calls that are checked, but for what the index holds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/params.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::core {

/// inverse_grid() or scatter_sum(), whose `values` are given.
struct IndexCall {
    TensorView index;
    std::int64_t destinations = 0;
    TensorView values;
    std::int64_t channels = 1;
    std::byte* out = nullptr;
    /// The inverse grid: where it goes, or for sums where it comes from (null: there is none).
    std::int64_t* row_ptr = nullptr;
    std::int64_t* source = nullptr;
    int threads = 0;
    bool deterministic = true;
    Place place;
};

struct IndexBackend {
    /// Throws invalid_value where the index holds what is neither -1 nor a destination, or the grid is not the index's.
    void (*check)(const IndexCall&);
    void (*invert)(const IndexCall&);
    void (*sum)(const IndexCall&);
    /// Bytes of scratch memory that these find at Place::workspace; null: none.
    std::size_t (*workspace)(const IndexCall&) = nullptr;
};

const IndexBackend& cpu_index();
const IndexBackend* cuda_index();  ///< null in a build without CUDA (src/no_cuda)

}  // namespace rowmax::core
