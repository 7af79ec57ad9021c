// A float as the sum of three bfloat16 numbers: 24 bits are 8 and 8 and 8.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt
#pragma once

#include <cstdint>

namespace rowmax::cuda {

/// Two floats rounded to bfloat16, to nearest even.
__device__ __forceinline__ std::uint32_t to_bfloats(float low, float high) {
    std::uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

/// Two floats that bfloat16 can hold.
__device__ __forceinline__ std::uint32_t pack_bfloats(float low, float high) {
    return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

/// Where the numbers of a group are cut: a multiple of a unit that is the same for all of them, 2^-8 of the least power
/// of two above the largest of them. x + grid - grid is the nearest such multiple.
class BfloatGrid {
  public:
    /// `largest`: of the group's magnitudes. Groups that three parts cannot hold, with infinities or magnitudes beyond
    /// 2^112, or without one above 2^-95, get a grid of NaN.
    __device__ __forceinline__ explicit BfloatGrid(float largest) {
        constexpr std::uint32_t exponent = 0x7f800000U;
        constexpr std::uint32_t tiny = 0x10000000U;  // 2^-95
        coarse_ = __uint_as_float(__float_as_uint(largest) & exponent) * 0x1.8p16F;
        if (__float_as_uint(largest) - 1U < tiny - 1U) coarse_ = __uint_as_float(0x7fffffffU);
        fine_ = coarse_ * 0x1p-9F;
    }
    [[nodiscard]] __device__ __forceinline__ float coarse(float x) const { return x + coarse_ - coarse_; }
    /// Of what is left: 2^-9 of the coarse unit.
    [[nodiscard]] __device__ __forceinline__ float fine(float x) const { return x + fine_ - fine_; }

  private:
    float coarse_;
    float fine_;
};

/// Two floats, each as a + b + c: a a multiple of the grid's unit, b of 2^-9 of it, c the rest, rounded: less than
/// 2^-27 of the power of two above the largest is lost.
struct BfloatParts {
    std::uint32_t a;
    std::uint32_t b;
    std::uint32_t c;

    __device__ __forceinline__ BfloatParts(const BfloatGrid& grid, float low, float high) {
        const float low_a = grid.coarse(low);
        const float high_a = grid.coarse(high);
        low -= low_a;
        high -= high_a;
        const float low_b = grid.fine(low);
        const float high_b = grid.fine(high);
        a = pack_bfloats(low_a, high_a);
        b = pack_bfloats(low_b, high_b);
        c = to_bfloats(low - low_b, high - high_b);
    }
};

}  // namespace rowmax::cuda
