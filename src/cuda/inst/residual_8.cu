#include "cuda/kernels/residual_rows.cuh"

namespace rowmax::cuda {

template <>
ResidualEntries residual_entries<8>() {
    return make_residual_entries<8>();
}

}  // namespace rowmax::cuda
