#include "cuda/kernels/residual_rows.cuh"

namespace rowmax::cuda {

template <>
ResidualEntries residual_entries<2>() {
    return make_residual_entries<2>();
}

}  // namespace rowmax::cuda
