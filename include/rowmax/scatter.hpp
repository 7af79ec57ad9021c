// Sums of source rows into the destinations that an index names: the other half of inverse_grid() (rowmax/maxsim.hpp).
#pragma once

#include <cstdint>

#include "rowmax/error.hpp"
#include "rowmax/export.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax {

/// What inverse_grid() gave for an index, to be used again.
struct InverseGrid {
    TensorView row_ptr;  ///< [..., n + 1] int64
    TensorView source;   ///< [..., S] int64
};

/// out[..., n, :] = the sum of values[..., s, :] over the sources s with index[..., s] = n.
///
/// index [..., S] int32 or int64; values [..., S] or [..., S, C], at most four dimensions, float16, bfloat16, float32
/// or float64; out [..., num_destinations] or [..., num_destinations, C] of the values' type. -1 drops a source; other
/// values out of range are an Error with `validate`, and drop it without.
///
/// Deterministic: a destination's sources are cut, in ascending order, into runs of 256; each run is added up in order,
/// from zero, and then the runs in order. Neither threads nor `grid` nor the other destinations change a bit. Halves
/// are added in float32 and rounded once, float64 in float64. Where a sum is NaN, it is the one quiet NaN.
///
/// `grid` spares the sort where the same index is used again; it is looked through with `validate`, and without it a
/// grid that lies is never followed out of the values. `threads` as in Options. On a CUDA
/// device, where `validate` waits for the stream, the sums have the same bits as on the CPU.
///
/// Without `deterministic` a CUDA device may add by atomic additions, in the order in which they come: where
/// destinations have few sources on average nothing then has to be sorted. Float32 sums of halves all the same.
///
/// The idea, one owner for every sum, is the inverse-grid CSR of Flash-MaxSim's backward pass.
ROWMAX_API void scatter_sum(const TensorView& index, const TensorView& values, std::int64_t num_destinations,
                            const TensorView& out, const InverseGrid& grid = {}, bool validate = true, int threads = 0,
                            const Device& device = {}, bool deterministic = true);

}  // namespace rowmax
