// How the portable kernel adds up products: 16 query rows a warp with 64 tokens, 128 bytes of the dimension at a time,
// in the order of the kernels for Hopper.
#pragma once

#include "cuda/kernels/products.cuh"
#include "cuda/kernels/split_sum.cuh"
#include "cuda/prim/mma.cuh"
#include "cuda/tuning.hpp"

namespace rowmax::cuda {

inline constexpr int portable_threads = 128;
inline constexpr int portable_tokens = 64;
inline constexpr int chunk_bytes = 128;
/// Between rows of a chunk in shared memory: loads of eight rows then meet no bank twice.
inline constexpr int padded_row = chunk_bytes + 16;

/// What a chunk of tokens is turned into before it is multiplied, in shared memory: nothing, or the parts of float32,
/// as the registers of each lane for 8 tokens: both steps' two.
template <TokenType Type>
struct PortableParts {};
template <>
struct PortableParts<TokenType::f32> {
    uint4 registers[portable_tokens / 8][float_parts][32];
};

/// Types that tensor cores multiply as they are. The chain goes on from chunk to chunk; where it would be too long, its
/// sum is put aside.
template <TokenType Type>
class PortableSum {
  public:
    __device__ __forceinline__ explicit PortableSum(std::int64_t dim)
        : chunks_of_chain_(static_cast<int>(chain_of(Type, dim) * bytes_of(Type) / chunk_bytes)) {}

    using Sums = Products<portable_tokens, SumOf<Type>>;

    __device__ __forceinline__ void begin(Sums& sums) {
#pragma unroll
        for (int i = 0; i < values; ++i) sums.value[i] = 0;
    }

    __device__ __forceinline__ void add(Sums& sums, const std::byte* q, const std::byte* d,
                                        const PortableParts<Type>&) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        const std::byte* a_row = q + (threadIdx.x / 32 * 16 + lane % 16) * padded_row + lane / 16 * 16;
        const std::byte* b_row = d + (lane / 16 * 8 + lane % 8) * padded_row + lane / 8 % 2 * 16;
#pragma unroll
        for (int step = 0; step < chunk_bytes / 32; ++step) {
            std::uint32_t a[4];
            load_tiles(a, a_row + step * 32);
#pragma unroll
            for (int j = 0; j < portable_tokens / 16; ++j) {
                std::uint32_t b[4];
                load_tiles(b, b_row + j * 16 * padded_row + step * 32);
                multiply_add<Type>(&sums.value[8 * j], a, b[0], b[1]);
                multiply_add<Type>(&sums.value[8 * j + 4], a, b[2], b[3]);
            }
        }
        if constexpr (!exact) {
            if (++chunks_ == chunks_of_chain_) put_aside(sums);
        }
    }

    __device__ __forceinline__ void end(Sums& sums) {
        if constexpr (!exact) {
            if (!aside_used_) return;
#pragma unroll
            for (int i = 0; i < values; ++i) sums.value[i] += aside_[i];
        }
    }

  private:
    static constexpr int values = portable_tokens / 2;
    static constexpr bool exact = Type == TokenType::i8;

    __device__ __forceinline__ void put_aside(Sums& sums) {
#pragma unroll
        for (int i = 0; i < values; ++i) {
            aside_[i] = aside_used_ ? aside_[i] + sums.value[i] : sums.value[i];
            sums.value[i] = 0;
        }
        aside_used_ = true;
        chunks_ = 0;
    }

    SumOf<Type> aside_[values];
    bool aside_used_ = false;
    int chunks_of_chain_;
    int chunks_ = 0;
};

/// float32 in parts. Query rows are split in the registers of the warp that multiplies them; tokens, which all warps
/// need, once for all.
template <>
class PortableSum<TokenType::f32> {
  public:
    __device__ __forceinline__ explicit PortableSum(std::int64_t) {}

    __device__ __forceinline__ void begin(Products<portable_tokens>& sums) {
#pragma unroll
        for (int i = 0; i < values; ++i) sums.value[i] = lost_[i] = small_[i] = 0;
    }

    /// By all warps, each its share, before any adds.
    __device__ __forceinline__ static void split_tokens(const std::byte* d, PortableParts<TokenType::f32>& to) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        const std::byte* token = d + lane / 4 * padded_row + lane % 4 * 32;
#pragma unroll
        for (int t = static_cast<int>(threadIdx.x / 32); t < tiles; t += warps) {
            PartRegisters<2> b[steps_of_chunk];
            split(numbers_at(token + t * 8 * padded_row), b, 0, 1);
#pragma unroll
            for (int p = 0; p < float_parts; ++p) {
                to.registers[t][p][lane] =
                    make_uint4(b[0].part[p][0], b[0].part[p][1], b[1].part[p][0], b[1].part[p][1]);
            }
        }
    }

    __device__ __forceinline__ void add(Products<portable_tokens>& sums, const std::byte* q, const std::byte*,
                                        const PortableParts<TokenType::f32>& tokens) {
        if (chunks_ == chunks_of_chain) end_chain();
        ++chunks_;
        const int lane = static_cast<int>(threadIdx.x % 32);
        const std::byte* row = q + (threadIdx.x / 32 * 16 + lane / 4) * padded_row + lane % 4 * 32;
        PartRegisters<4> a[steps_of_chunk];
        split(numbers_at(row), a, 0, 2);
        split(numbers_at(row + 8 * padded_row), a, 1, 3);
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
            PartRegisters<2> b[steps_of_chunk];
#pragma unroll
            for (int p = 0; p < float_parts; ++p) {
                const uint4 both = tokens.registers[t][p][lane];
                b[0].part[p][0] = both.x;
                b[0].part[p][1] = both.y;
                b[1].part[p][0] = both.z;
                b[1].part[p][1] = both.w;
            }
            multiply(&sums.value[4 * t], &lost_[4 * t], &small_[4 * t], a, b);
        }
    }

    __device__ __forceinline__ void end(Products<portable_tokens>& sums) {
        end_chain();
#pragma unroll
        for (int i = 0; i < values; ++i) sums.value[i] += lost_[i];
    }

  private:
    static constexpr int values = portable_tokens / 2;
    static constexpr int tiles = portable_tokens / 8;
    static constexpr int warps = portable_threads / 32;

    __device__ __forceinline__ static QuadNumbers numbers_at(const std::byte* from) {
        const auto* pieces = reinterpret_cast<const float4*>(from);
        return {{pieces[0], pieces[1]}};
    }

    __device__ __forceinline__ static void multiply(float* total, float* lost, float* small,
                                                    const PartRegisters<4> (&a)[steps_of_chunk],
                                                    const PartRegisters<2> (&b)[steps_of_chunk]) {
        constexpr auto bf16 = TokenType::bf16;
        float chunk[4] = {0, 0, 0, 0};
#pragma unroll
        for (int s = 0; s < steps_of_chunk; ++s) {
            multiply_add<bf16>(chunk, a[s].part[0], b[s].part[0][0], b[s].part[0][1]);
        }
#pragma unroll
        for (int s = 0; s < steps_of_chunk; ++s) {
#pragma unroll
            for (int i = 0; i < small_products; ++i) {
                const auto& token = b[s].part[token_part(i)];
                multiply_add<bf16>(small, a[s].part[query_part(i)], token[0], token[1]);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) add_keeping(total[i], lost[i], chunk[i]);
    }

    __device__ __forceinline__ void end_chain() {
#pragma unroll
        for (int i = 0; i < values; ++i) {
            lost_[i] += small_[i];
            small_[i] = 0;
        }
        chunks_ = 0;
    }

    float lost_[values];
    float small_[values];
    int chunks_ = 0;
};

}  // namespace rowmax::cuda
