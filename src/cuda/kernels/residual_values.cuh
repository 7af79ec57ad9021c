// Single numbers of residual documents, wherever they lie: slow, exact, for what is rare.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/kernels/residual_arguments.hpp"
#include "cuda/kernels/row_norm.cuh"

namespace rowmax::cuda {

/// Element `at` of an array of float32, float16 or bfloat16.
__device__ __forceinline__ float element_of(const std::byte* data, DType dtype, std::int64_t at) {
    if (dtype == DType::f16) return __half2float(reinterpret_cast<const __half*>(data)[at]);
    if (dtype == DType::bf16) return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(data)[at]);
    return reinterpret_cast<const float*>(data)[at];
}

/// Number k of a query token: sign bits are -1 and 1.
__device__ __forceinline__ float query_number(const ResidualArguments& call, const std::byte* data, int k) {
    if (call.query_dtype == DType::u8) return (static_cast<unsigned>(data[k / 8]) >> k % 8 & 1U) == 0 ? -1.0F : 1.0F;
    return element_of(data, call.query_dtype, k);
}

/// A document token: its packed bytes and its centroid.
struct ResidualToken {
    const std::byte* bytes = nullptr;
    std::int64_t code = 0;
};

__device__ __forceinline__ std::int64_t code_at(const ResidualArguments& call, std::int64_t at) {
    if (call.centroids == nullptr) return 0;
    return core::detail::clamp(core::detail::read_int(call.codes, call.wide_codes, at), 0, call.table.count - 1);
}

__device__ __forceinline__ float weight_of(const ResidualArguments& call, unsigned bucket) {
    if (call.weights == nullptr) return bucket == 0 ? -1.0F : 1.0F;
    return element_of(call.weights, call.weight_dtype, bucket * call.weight_stride);
}

/// Number k of a token: centroid and weight, added in float32.
__device__ __forceinline__ float decoded(const ResidualArguments& call, const ResidualToken& token, int k) {
    const int per_byte = 8 / call.nbits;
    unsigned byte = static_cast<unsigned>(token.bytes[k / per_byte]);
    if (!call.little) byte = __brev(byte) >> 24;
    const unsigned bucket = byte >> (k % per_byte * call.nbits) & ((1U << call.nbits) - 1);
    const std::byte* row = call.centroids + token.code * call.centroid_stride;
    const float centroid = call.centroids == nullptr ? 0.0F : element_of(row, call.centroid_dtype, k);
    return centroid + weight_of(call, bucket);
}

/// How a token is multiplied to be normalised: by a power of two first, since squares may leave float32's range.
inline __device__ Norm norm_of_decoded(const ResidualArguments& call, const ResidualToken& token) {
    const auto dim = static_cast<int>(call.call.params.dim);
    float largest = 0;
    for (int k = 0; k < dim; ++k) largest = fmaxf(largest, fabsf(decoded(call, token, k)));
    Norm norm;
    if (largest == 0) return norm;
    if (largest < __builtin_huge_valf()) norm.scale = power_of_two(-ilogbf(largest));
    float sum = 0;
    for (int begin = 0; begin < dim; begin += 8) {
        float chain = 0;
        for (int k = begin; k < dim && k < begin + 8; ++k) {
            const float x = decoded(call, token, k) * norm.scale;
            chain = fmaf(x, x, chain);
        }
        sum += chain;
    }
    norm.inverse = inverse_root(sum);
    return norm;
}

/// The similarity in plain float32: what the matrix unit's parts cannot give. Out of line: its registers would be
/// missing where it is not needed.
inline __device__ __noinline__ float direct_residual(const ResidualArguments& call, const std::byte* query,
                                                     const ResidualToken& token) {
    const auto dim = static_cast<int>(call.call.params.dim);
    Norm norm{1, 1};
    if (call.normalize) norm = norm_of_decoded(call, token);
    float sum = 0;
    for (int begin = 0; begin < dim; begin += 8) {
        float chain = 0;
        for (int k = begin; k < dim && k < begin + 8; ++k) {
            chain = fmaf(query_number(call, query, k), decoded(call, token, k) * norm.scale, chain);
        }
        sum += chain;
    }
    return sum * norm.inverse;
}

}  // namespace rowmax::cuda
