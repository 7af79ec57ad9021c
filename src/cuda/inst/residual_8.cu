#include "cuda/kernels/residual_rows.cuh"

namespace rowmax::cuda {

template <>
ResidualEntries residual_entries<8>() {
    return {residual_entry<8, 1, 0, true>(), residual_entry<8, 4, 0, false>(), residual_entry<8, 2, 0, true>(),
            residual_entry<8, 4, 128, false>()};
}

}  // namespace rowmax::cuda
