#include "cuda/kernels/residual_rows.cuh"

namespace rowmax::cuda {

template <>
ResidualEntries residual_entries<1>() {
    return {residual_entry<1, 1, 0, true>(), residual_entry<1, 4, 0, false>(), residual_entry<1, 2, 0, true>(),
            residual_entry<1, 4, 128, false>()};
}

}  // namespace rowmax::cuda
