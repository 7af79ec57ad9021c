// Quantisers: a warp looks at a row twice, for its largest magnitude and to write its codes; the second time it is in
// L1, or, where many rows share a scale, in L2 as far as these hold them. The arithmetic is core/quantize.cpp's, so
// that codes and scales have the same bits.
#pragma once

#include <cstdint>

#include "core/device_quantize.hpp"
#include "core/float8.hpp"
#include "cuda/kernels/token_row.cuh"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

inline constexpr int quantize_warps = 8;
inline constexpr int quantize_threads = 32 * quantize_warps;

/// What is made of numbers x / scale.
template <bool Float8>
struct Codes {
    static constexpr float most = Float8 ? core::float8_most : 127.0F;
    __device__ __forceinline__ static std::uint32_t code(float x) {
        if constexpr (Float8) {
            return core::float_to_float8(x);
        } else {
            const int whole = __float2int_rn(x);
            return static_cast<std::uint32_t>(min(max(whole, -127), 127)) & 0xffU;
        }
    }
};

/// The scale of rows whose largest magnitude has these bits.
template <bool Float8>
__device__ __forceinline__ float scale_of_largest(std::uint32_t bits) {
    constexpr std::uint32_t infinity = 0x7f800000U;
    if (bits >= infinity) return __uint_as_float(0x7fc00000U);
    const float scale = __uint_as_float(bits) / Codes<Float8>::most;
    return scale == 0 && bits != 0 ? __uint_as_float(1) : scale;  // 0 is for zeros alone
}

/// A warp's view of the rows.
template <TokenType Type, bool Float8>
class QuantizedRows {
  public:
    __device__ __forceinline__ explicit QuantizedRows(const core::QuantizeCall& call)
        : call_(call), dim_(static_cast<int>(call.dim)) {}

    /// The bits of the largest magnitude of a row, which compare as the magnitudes do; infinities and NaN are larger.
    [[nodiscard]] __device__ __forceinline__ std::uint32_t largest(std::int64_t row) const {
        std::uint32_t bits = 0;
        for_pieces(row, [&](int, const float(&values)[count]) {
#pragma unroll
            for (const float x : values) bits = max(bits, __float_as_uint(x) & 0x7fffffffU);
        });
        return __reduce_max_sync(all_lanes, bits);
    }

    __device__ __forceinline__ void write(std::int64_t row, float scale) const {
        std::byte* to = static_cast<std::byte*>(call_.codes) + row * call_.dim;
        const bool by_words = (reinterpret_cast<std::uintptr_t>(to) | static_cast<unsigned>(dim_)) % 4 == 0;
        const bool ordinary = scale > 0;
        for_pieces(row, [&](int first, const float(&values)[count]) {
            std::uint32_t words[count / 4] = {};
#pragma unroll
            for (int i = 0; i < count; ++i) {
                const std::uint32_t code = ordinary ? Codes<Float8>::code(values[i] / scale) : 0;
                words[i / 4] |= code << (i % 4 * 8);
            }
            put(to + first, words, by_words, dim_ - first);
        });
    }

  private:
    static constexpr int count = elements_of_piece<Type>;

    /// Calls f(first element, elements) for this lane's pieces of 16 bytes; zeros beyond the row's end.
    template <class F>
    __device__ __forceinline__ void for_pieces(std::int64_t row, F f) const {
        const std::byte* from = call_.row(row);
        const bool by_16 = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
        for (int first = static_cast<int>(threadIdx.x % 32) * count; first < dim_; first += 32 * count) {
            float values[count];
            widen<Type>(read_piece<Type>(from, first, dim_, by_16), values);
            f(first, values);
        }
    }

    __device__ __forceinline__ static void put(std::byte* to, const std::uint32_t (&words)[count / 4], bool by_words,
                                               int left) {
#pragma unroll
        for (int w = 0; w < count / 4; ++w) {
            if (by_words) {
                if (4 * w < left) reinterpret_cast<std::uint32_t*>(to)[w] = words[w];
                continue;
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (4 * w + i < left) to[4 * w + i] = static_cast<std::byte>(words[w] >> (8 * i));
            }
        }
    }

    const core::QuantizeCall& call_;
    const int dim_;
};

/// A scale a row: a warp each.
template <TokenType Type, bool Float8>
__global__ void __launch_bounds__(quantize_threads) quantize_rows(const __grid_constant__ core::QuantizeCall call) {
    const QuantizedRows<Type, Float8> rows(call);
    const std::int64_t row = std::int64_t{blockIdx.x} * quantize_warps + threadIdx.x / 32;
    if (row >= call.count()) return;
    const float scale = scale_of_largest<Float8>(rows.largest(row));
    if (threadIdx.x % 32 == 0) call.scale[row] = scale;
    rows.write(row, scale);
}

/// A scale for some rows: a thread block each.
template <TokenType Type, bool Float8>
__global__ void __launch_bounds__(quantize_threads) quantize_groups(const __grid_constant__ core::QuantizeCall call) {
    __shared__ std::uint32_t of_warps[quantize_warps];
    const QuantizedRows<Type, Float8> rows(call);
    const auto warp = static_cast<int>(threadIdx.x / 32);
    const std::int64_t begin = std::int64_t{blockIdx.x} * call.group;
    const std::int64_t end = begin + call.group;
    std::uint32_t largest = 0;
    for (std::int64_t row = begin + warp; row < end; row += quantize_warps) largest = max(largest, rows.largest(row));
    of_warps[warp] = largest;
    __syncthreads();
    for (const std::uint32_t other : of_warps) largest = max(largest, other);
    const float scale = scale_of_largest<Float8>(largest);
    if (threadIdx.x == 0) call.scale[blockIdx.x] = scale;
    for (std::int64_t row = begin + warp; row < end; row += quantize_warps) rows.write(row, scale);
}

/// One scale for all rows, in three steps: the bits of the largest magnitude are gathered in the scale's place, which
/// begins as zero; they become the scale; codes are written.
template <TokenType Type, bool Float8>
__global__ void __launch_bounds__(quantize_threads) find_largest(const __grid_constant__ core::QuantizeCall call) {
    const QuantizedRows<Type, Float8> rows(call);
    const std::int64_t step = std::int64_t{gridDim.x} * quantize_warps;
    std::uint32_t largest = 0;
    for (std::int64_t row = std::int64_t{blockIdx.x} * quantize_warps + threadIdx.x / 32; row < call.count();
         row += step)
        largest = max(largest, rows.largest(row));
    if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<unsigned*>(call.scale), largest);
}

template <bool Float8>
__global__ void largest_to_scale(const __grid_constant__ core::QuantizeCall call) {
    *call.scale = scale_of_largest<Float8>(__float_as_uint(*call.scale));
}

template <TokenType Type, bool Float8>
__global__ void __launch_bounds__(quantize_threads) quantize_by_scale(const __grid_constant__ core::QuantizeCall call) {
    const QuantizedRows<Type, Float8> rows(call);
    const std::int64_t row = std::int64_t{blockIdx.x} * quantize_warps + threadIdx.x / 32;
    if (row < call.count()) rows.write(row, *call.scale);
}

}  // namespace rowmax::cuda
