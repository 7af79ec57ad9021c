#include "cuda/kernels/residual_rows.cuh"

namespace rowmax::cuda {

template <>
ResidualEntries residual_entries<2>() {
    return {residual_entry<2, 1, 0, true>(), residual_entry<2, 4, 0, false>(), residual_entry<2, 2, 0, true>(),
            residual_entry<2, 4, 128, false>()};
}

}  // namespace rowmax::cuda
