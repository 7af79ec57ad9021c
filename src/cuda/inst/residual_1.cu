#include "cuda/kernels/residual_rows.cuh"

namespace rowmax::cuda {

template <>
ResidualEntries residual_entries<1>() {
    return make_residual_entries<1>();
}

}  // namespace rowmax::cuda
