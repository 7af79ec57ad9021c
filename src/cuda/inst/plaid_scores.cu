#include "cuda/kernels/plaid_scores.cuh"

namespace rowmax::cuda {

const void* const approximate_by_four_kernel = reinterpret_cast<const void*>(&approximate<4>);
const void* const approximate_kernel = reinterpret_cast<const void*>(&approximate<1>);
const void* const transpose_scores_kernel = reinterpret_cast<const void*>(&transpose_scores);
const void* const keep_centroids_kernel = reinterpret_cast<const void*>(&keep_centroids);

}  // namespace rowmax::cuda
