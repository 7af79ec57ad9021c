// Numbers in memory as the type that sums have, some side by side, and back.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "rowmax/tensor.hpp"

namespace rowmax::cuda {

template <class Stored>
using SumOf = std::conditional_t<std::is_same_v<Stored, double>, double, float>;

/// V numbers that are read at once.
template <class Stored, int V>
struct alignas(sizeof(Stored) * (V == 3 ? 1 : V)) Pack {
    Stored at[V];
};

__device__ __forceinline__ float widened(__half x) {
    return __half2float(x);
}
__device__ __forceinline__ float widened(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
__device__ __forceinline__ float widened(float x) {
    return x;
}
__device__ __forceinline__ double widened(double x) {
    return x;
}

/// Rounded to the nearest, ties to even; any NaN is the one quiet NaN that the CPU writes.
template <class Stored>
__device__ __forceinline__ Stored rounded(SumOf<Stored> x) {
    if constexpr (std::is_same_v<Stored, __half>) {
        return x == x ? __float2half_rn(x) : __ushort_as_half(0x7e00);
    } else if constexpr (std::is_same_v<Stored, __nv_bfloat16>) {
        return x == x ? __float2bfloat16_rn(x) : __ushort_as_bfloat16(0x7fc0);
    } else if constexpr (std::is_same_v<Stored, float>) {
        return x == x ? x : __uint_as_float(0x7fc00000U);
    } else {
        return x == x ? x : __longlong_as_double(0x7ff8000000000000LL);
    }
}

/// Element `i` of an array of a type that is known when the kernel runs.
template <class Value>
__device__ __forceinline__ Value read_number(const void* data, DType dtype, std::int64_t i) {
    switch (dtype) {
        case DType::f16: return static_cast<Value>(__half2float(static_cast<const __half*>(data)[i]));
        case DType::bf16: return static_cast<Value>(__bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]));
        case DType::f64: return static_cast<Value>(static_cast<const double*>(data)[i]);
        default: return static_cast<Value>(static_cast<const float*>(data)[i]);
    }
}

template <class Value>
__device__ __forceinline__ void write_number(void* data, DType dtype, std::int64_t i, Value x) {
    switch (dtype) {
        case DType::f16: static_cast<__half*>(data)[i] = rounded<__half>(static_cast<float>(x)); break;
        case DType::bf16: static_cast<__nv_bfloat16*>(data)[i] = rounded<__nv_bfloat16>(static_cast<float>(x)); break;
        case DType::f64: static_cast<double*>(data)[i] = rounded<double>(static_cast<double>(x)); break;
        default: static_cast<float*>(data)[i] = rounded<float>(static_cast<float>(x)); break;
    }
}

}  // namespace rowmax::cuda
