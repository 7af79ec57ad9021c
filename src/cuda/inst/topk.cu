#include "cuda/kernels/topk.cuh"

namespace rowmax::cuda {

const void* const merge_chunk_kernel = reinterpret_cast<const void*>(&merge_chunk);

}  // namespace rowmax::cuda
