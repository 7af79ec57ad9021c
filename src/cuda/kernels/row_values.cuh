// A warp's view of token rows: slices of 128 elements, four to a lane. Rows whose address is a multiple of four
// elements are read whole lanes at a time; from others a lane takes every 32nd element.
#pragma once

#include "cuda/kernels/backward_arguments.hpp"
#include "cuda/kernels/row_norm.cuh"
#include "cuda/kernels/token_row.cuh"

namespace rowmax::cuda {

/// A lane's part of a slice, as it is stored.
template <TokenType Type>
struct LanePart {
    static constexpr int count = lane_elements * bytes_of(Type) / 4;
    std::uint32_t words[count] = {};
};

template <TokenType Type, bool Vector>
struct RowValues {
    static constexpr bool wide = bytes_of(Type) == 4;
    using Part = LanePart<Type>;

    /// The element of a slice that is a lane's number i.
    static __device__ __forceinline__ int element(int i) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        return Vector ? lane_elements * lane + i : lane + 32 * i;
    }

    /// Of the slice from element `first` of a row of `dim`; zeros beyond it, and of no row.
    static __device__ __forceinline__ Part load(const std::byte* row, int first, int dim) {
        Part part;
        if (row == nullptr) return part;
        if constexpr (Vector) {
            const int at = first + element(0);
            if (at >= dim) return part;
            const std::byte* from = row + at * bytes_of(Type);
            if constexpr (wide) {
                const uint4 all = __ldg(reinterpret_cast<const uint4*>(from));
                part.words[0] = all.x, part.words[1] = all.y, part.words[2] = all.z, part.words[3] = all.w;
            } else {
                const uint2 all = __ldg(reinterpret_cast<const uint2*>(from));
                part.words[0] = all.x, part.words[1] = all.y;
            }
        } else {
#pragma unroll
            for (int i = 0; i < lane_elements; ++i) {
                const int at = first + element(i);
                if (at >= dim) continue;
                if constexpr (wide) {
                    part.words[i] = __ldg(reinterpret_cast<const std::uint32_t*>(row) + at);
                } else {
                    part.words[i / 2] |=
                        static_cast<std::uint32_t>(__ldg(reinterpret_cast<const std::uint16_t*>(row) + at))
                        << (i % 2 * 16);
                }
            }
        }
        return part;
    }

    static __device__ __forceinline__ void widened(const Part& part, float (&to)[lane_elements]) {
        if constexpr (wide) {
#pragma unroll
            for (int i = 0; i < lane_elements; ++i) to[i] = __uint_as_float(part.words[i]);
        } else {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float two[2];
                widen_two<Type>(part.words[i], two);
                to[2 * i] = two[0];
                to[2 * i + 1] = two[1];
            }
        }
    }

    static __device__ __forceinline__ void store(const float (&values)[lane_elements], std::byte* row, int first,
                                                 int dim) {
        Part part;
#pragma unroll
        for (int i = 0; i < Part::count; ++i) {
            if constexpr (wide) {
                part.words[i] = __float_as_uint(values[i]);
            } else {
                part.words[i] = narrow_two<Type>(values[2 * i], values[2 * i + 1]);
            }
        }
        if constexpr (Vector) {
            const int at = first + element(0);
            if (at >= dim) return;
            std::byte* to = row + at * bytes_of(Type);
            if constexpr (wide) {
                *reinterpret_cast<uint4*>(to) = make_uint4(part.words[0], part.words[1], part.words[2], part.words[3]);
            } else {
                *reinterpret_cast<uint2*>(to) = make_uint2(part.words[0], part.words[1]);
            }
        } else {
#pragma unroll
            for (int i = 0; i < lane_elements; ++i) {
                const int at = first + element(i);
                if (at >= dim) continue;
                if constexpr (wide) {
                    reinterpret_cast<std::uint32_t*>(row)[at] = part.words[i];
                } else {
                    reinterpret_cast<std::uint16_t*>(row)[at] =
                        static_cast<std::uint16_t>(part.words[i / 2] >> (i % 2 * 16));
                }
            }
        }
    }
};

__device__ __forceinline__ float largest_of_warp(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) value = fmaxf(value, exchange(value, distance));
    return value;
}

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) value += exchange(value, distance);
    return value;
}

/// A power of two that brings the largest magnitude of a row near 1; 0 for a row of zeros.
template <TokenType Type, bool Vector>
__device__ __forceinline__ float scale_of_row(const std::byte* row, int dim) {
    using Values = RowValues<Type, Vector>;
    float largest = 0;
    for (int first = 0; first < dim; first += slice_elements) {
        float x[lane_elements];
        Values::widened(Values::load(row, first, dim), x);
#pragma unroll
        for (const float value : x) largest = fmaxf(largest, fabsf(value));
    }
    largest = largest_of_warp(largest);
    if (largest == 0) return 0;
    return largest < __builtin_huge_valf() ? power_of_two(-ilogbf(largest)) : 1.0F;
}

}  // namespace rowmax::cuda
