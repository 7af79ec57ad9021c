// Packed bucket numbers to registers of the matrix unit: weights in two float16 parts, looked up in registers (1, 2 and
// 4 bits) or shared memory (8).
#pragma once

#include "cuda/kernels/half_parts.cuh"
#include "cuda/kernels/residual_values.cuh"
#include "cuda/prim/bytes.cuh"

namespace rowmax::cuda {

/// A lane's 16 numbers of a token's chunk as they are stored, in the order "little".
template <int Bits>
struct Fields {
    static constexpr int bytes = residual_lane_dims * Bits / 8;
    static constexpr int words = (bytes + 3) / 4;
    std::uint32_t word[words];

    /// From an address that is a multiple of their size.
    __device__ __forceinline__ void load(const std::byte* from) {
        if constexpr (Bits == 1) word[0] = __ldg(reinterpret_cast<const std::uint16_t*>(from));
        if constexpr (Bits == 2) word[0] = __ldg(reinterpret_cast<const std::uint32_t*>(from));
        if constexpr (Bits == 4) set(__ldg(reinterpret_cast<const uint2*>(from)));
        if constexpr (Bits == 8) set(__ldg(reinterpret_cast<const uint4*>(from)));
    }

    /// From shared memory.
    __device__ __forceinline__ void take(const std::byte* from) {
        if constexpr (Bits == 1) word[0] = *reinterpret_cast<const std::uint16_t*>(from);
        if constexpr (Bits == 2) word[0] = *reinterpret_cast<const std::uint32_t*>(from);
        if constexpr (Bits == 4) set(*reinterpret_cast<const uint2*>(from));
        if constexpr (Bits == 8) set(*reinterpret_cast<const uint4*>(from));
    }

    /// `left`: bytes of the row from here on.
    __device__ __forceinline__ void load(const std::byte* from, int left, bool at_once) {
        if (at_once && left >= bytes) return load(from);
#pragma unroll
        for (std::uint32_t& w : word) w = 0;
#pragma unroll
        for (int i = 0; i < bytes; ++i) {
            if (i < left)
                word[i / 4] |= static_cast<std::uint32_t>(__ldg(reinterpret_cast<const std::uint8_t*>(from) + i))
                               << (i % 4 * 8);
        }
    }

    __device__ __forceinline__ void set(const uint2& two) {
        word[0] = two.x, word[1] = two.y;
    }
    __device__ __forceinline__ void set(const uint4& four) {
        word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
    }

    /// Clears all but the first numbers, in the order "little".
    __device__ __forceinline__ void cut(int numbers) {
#pragma unroll
        for (int i = 0; i < words; ++i) {
            const int bits = numbers * Bits - 32 * i;
            word[i] &= bits >= 32 ? ~0U : (bits <= 0 ? 0U : (1U << bits) - 1);
        }
    }

    /// ColBERT's order is the little one of each byte's bits reversed.
    __device__ __forceinline__ void reverse_bytes() {
#pragma unroll
        for (std::uint32_t& w : word) w = reverse_each_byte(w);
    }
};

/// Registers of one token row for two of a chunk's four steps: of each two, `high` and what is left.
struct WeightRegisters {
    std::uint32_t high[2][2];
    std::uint32_t low[2][2];
};

/// Raw: packed bytes are looked up as they lie, in whatever order, else in the order "little".
template <int Bits, bool Raw>
class Weights {
  public:
    static constexpr int count = 1 << Bits;
    static constexpr bool counted = Bits <= 2;  ///< squares by how often each bucket occurs

    /// By whole warps; all write the same to `table`, [256] with 8 bits.
    __device__ __forceinline__ Weights(const ResidualArguments& call, std::uint32_t* table)
        : table_(table), flip_(Raw && !call.little ? turned : 0), flipped_(!call.little) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        float largest = 0;
        for (int b = lane; b < count; b += 32) largest = fmaxf(largest, fabsf(weight_of(call, b)));
        largest = largest_of_warp(largest);
        const bool halves = Raw || call.weights == nullptr || call.weight_dtype == DType::f16;
        const float scale = halves ? 1.0F : scale_for_parts(largest);
        inverse_scale = 1.0F / scale;
        bool any_low = false;
        bool all_finite = true;
#pragma unroll 1
        for (int first = 0; first < count; first += 32) {
            const float weight = weight_of(call, bucket((first + lane) % count));
            const HalfParts parts = half_parts(weight * scale);
            own_ = both(parts.high, parts.low);
            all_finite = all_finite && fabsf(weight) < __builtin_huge_valf();
            any_low = any_low || (own_ >> 16 & 0x7fffU) != 0;
            if (Bits == 8) table[first + lane] = own_;
            if constexpr (counted) {
#pragma unroll
                for (int b = 0; b < count; ++b) {
                    const float w = from_lane(weight, static_cast<int>(bucket(b)));
                    square_[b] = w * w;
                }
            }
        }
        two_parts = ballot(any_low) != 0;
        finite = ballot(!all_finite) == 0;
        if constexpr (counted) {
#pragma unroll
            for (int pair = 0; pair < count / 2; ++pair) {
                const std::uint32_t a = from_lane(own_, 2 * pair);
                const std::uint32_t b = from_lane(own_, 2 * pair + 1);
                high_[pair] = in_every_lane(select_bytes(a, b, 0x5410));
                low_[pair] = in_every_lane(select_bytes(a, b, 0x7632));
            }
        }
    }

    /// Matrix steps 2 Step and 2 Step + 1 of a chunk.
    template <bool Two, int Step>
    __device__ __forceinline__ void look_up(const Fields<Bits>& fields, WeightRegisters& to) const {
        if constexpr (Bits == 1) {
#pragma unroll
            for (int f = 0; f < 4; ++f) {
                pick<Two>((fields.word[0] >> ((4 * Step + f) ^ flip_) & 0x0101U) * 0x22U + 0x1010U, to, f / 2, f % 2);
            }
        } else if constexpr (Bits == 2) {
#pragma unroll
            for (int f = 0; f < 2; ++f) {
                const std::uint32_t four =
                    (fields.word[0] >> ((4 * Step + 2 * f) ^ flip_) & 0x03030303U) * 0x22U + 0x10101010U;
                pick<Two>(four, to, f, 0);
                pick<Two>(four >> 16, to, f, 1);
            }
        } else {
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) {
                const std::uint32_t a = one(fields, 8 * Step + 2 * pair);
                const std::uint32_t b = one(fields, 8 * Step + 2 * pair + 1);
                to.high[pair / 2][pair % 2] = select_bytes(a, b, 0x5410);
                if constexpr (Two) to.low[pair / 2][pair % 2] = select_bytes(a, b, 0x7632);
            }
        }
    }

    /// How often each bucket but the first occurs among a lane's numbers, ten bits each.
    [[nodiscard]] static __device__ __forceinline__ std::uint32_t counts(const Fields<Bits>& fields) {
        const std::uint32_t word = fields.word[0];
        if constexpr (Bits == 1) return __popc(word);
        const std::uint32_t low = word & 0x55555555U;
        const std::uint32_t high = word >> 1 & 0x55555555U;
        const std::uint32_t three = __popc(low & high);
        return (__popc(low) - three) | (__popc(high) - three) << 10 | three << 20;
    }

    /// The same of a lane's numbers of two chunks.
    [[nodiscard]] __device__ __forceinline__ std::uint32_t counts(const Fields<Bits>& a, const Fields<Bits>& b) const {
        if constexpr (Bits == 1) return __popc(a.word[0] | b.word[0] << 16);
        const std::uint32_t low = (a.word[0] & 0x55555555U) | (b.word[0] << 1 & 0xaaaaaaaaU);
        const std::uint32_t high = (a.word[0] >> 1 & 0x55555555U) | (b.word[0] & 0xaaaaaaaaU);
        const std::uint32_t three = __popc(low & high);
        const std::uint32_t one = flip_ == 0 ? 1U : 1U << 10;
        return __popc(low) * one + __popc(high) * (one ^ 0x401U) + three * ((1U << 20) - 0x401U);
    }

    /// The sum of squares of `all` numbers that were counted so.
    [[nodiscard]] __device__ __forceinline__ float squares(std::uint32_t counts, int all) const {
        if constexpr (Bits == 1) {
            const auto ones = static_cast<int>(counts);
            return fmaf(static_cast<float>(ones), square_[1], static_cast<float>(all - ones) * square_[0]);
        } else if constexpr (Bits == 2) {
            const int one = static_cast<int>(counts & 0x3ffU);
            const int two = static_cast<int>(counts >> 10 & 0x3ffU);
            const int three = static_cast<int>(counts >> 20);
            float sum = static_cast<float>(all - one - two - three) * square_[0];
            sum = fmaf(static_cast<float>(one), square_[1], sum);
            sum = fmaf(static_cast<float>(two), square_[2], sum);
            return fmaf(static_cast<float>(three), square_[3], sum);
        }
        return 0;
    }

    float inverse_scale = 1;
    bool two_parts = false;  ///< some second part is not zero
    bool finite = true;      ///< all weights are

  private:
    /// Where ColBERT's order has the first number of a byte, in bits: the others descend.
    static constexpr int turned = Bits == 8 ? 0 : 8 - Bits;

    /// Whose number it is that lies as `raw` in a byte.
    [[nodiscard]] __device__ __forceinline__ unsigned bucket(unsigned raw) const {
        return Raw && flipped_ ? __brev(raw) >> (32 - Bits) : raw;
    }

    /// Two weights by a selector of bytes: number i is bytes 2 i and 2 i + 1.
    template <bool Two>
    __device__ __forceinline__ void pick(std::uint32_t selector, WeightRegisters& to, int step, int half) const {
        to.high[step][half] = select_bytes(high_[0], high_[count / 2 > 1 ? 1 : 0], selector);
        if constexpr (Two) to.low[step][half] = select_bytes(low_[0], low_[count / 2 > 1 ? 1 : 0], selector);
    }

    [[nodiscard]] __device__ __forceinline__ std::uint32_t one(const Fields<Bits>& fields, int i) const {
        if constexpr (Bits == 4) {
            return __shfl_sync(all_lanes, own_, static_cast<int>(fields.word[i / 8] >> (i % 8 * 4 ^ flip_)), 16);
        } else {
            return table_[fields.word[i / 4] >> (i % 4 * 8) & 0xffU];
        }
    }

    const std::uint32_t* table_;
    int flip_;  ///< of the places of numbers in a byte
    bool flipped_;
    std::uint32_t own_ = 0;  ///< both parts of the weight whose number is the lane's
    std::uint32_t high_[2] = {};
    std::uint32_t low_[2] = {};
    float square_[counted ? count : 1] = {};
};

/// Zeros where there is no dimension any more; `valid` of the lane's 16 are left.
template <int Bits, int Step>
__device__ __forceinline__ void cut(WeightRegisters& registers, int valid) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int slot = 8 * Step + 2 * i;
        const std::uint32_t mask = (residual_dim(Bits, slot) < valid ? 0xffffU : 0U) |
                                   (residual_dim(Bits, slot + 1) < valid ? 0xffff0000U : 0U);
        registers.high[i / 2][i % 2] &= mask;
        registers.low[i / 2][i % 2] &= mask;
    }
}

}  // namespace rowmax::cuda
