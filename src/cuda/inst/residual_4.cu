#include "cuda/kernels/residual_rows.cuh"

namespace rowmax::cuda {

template <>
ResidualEntries residual_entries<4>() {
    return make_residual_entries<4>();
}

}  // namespace rowmax::cuda
