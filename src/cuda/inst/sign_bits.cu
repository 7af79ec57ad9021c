#include "cuda/kernels/sign_bits.cuh"

namespace rowmax::cuda {

const void* const sign_bits_kernel = reinterpret_cast<const void*>(&make_sign_bits);

}  // namespace rowmax::cuda
