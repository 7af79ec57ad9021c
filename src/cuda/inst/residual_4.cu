#include "cuda/kernels/residual_rows.cuh"

namespace rowmax::cuda {

template <>
ResidualEntries residual_entries<4>() {
    return {residual_entry<4, 1, 0, true>(), residual_entry<4, 4, 0, false>(), residual_entry<4, 2, 0, true>(),
            residual_entry<4, 4, 128, false>()};
}

}  // namespace rowmax::cuda
