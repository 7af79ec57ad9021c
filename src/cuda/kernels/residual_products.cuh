// Tokens times query rows, on the matrix units of a warp: sums of 16 tokens of residual documents with 8 Tiles query
// rows, and what their norms are made of.
#pragma once

#include "cuda/kernels/residual_reader.cuh"
#include "cuda/kernels/residual_shape.hpp"
#include "cuda/prim/mma.cuh"

namespace rowmax::cuda {

/// What the sums of a token are multiplied by.
struct ResidualFactors {
    float centroid = 1;
    float weights = 1;
    bool certain = true;  ///< else the token's similarities are to be computed directly
};

template <class Shape>
class ResidualProducts {
    static constexpr int Bits = Shape::bits;
    static constexpr int Tiles = Shape::tiles;
    static constexpr int Dim = Shape::dim;
    static constexpr bool Long = Shape::is_long;
    static constexpr bool counted = Weights<Bits, false>::counted;
    static constexpr bool Half = ringed<Shape>;  ///< no number has a second part, but perhaps those of queries

  public:
    using Stage = ResidualStage<Bits>;

    /// `table`: of Weights. `queries`: rows in shared memory, a plane of them a part.
    __device__ __forceinline__ ResidualProducts(const ResidualArguments& call, std::uint32_t* table,
                                                const std::byte* queries)
        : call_(call),
          queries_(queries),
          weights_(call, table),
          same_(0x3210U + static_cast<std::uint32_t>(Half ? call.call.params.dim - Dim : 0)) {}

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < 4 * Tiles; ++i) {
            of_centroid_[i] = of_weights_[i] = 0;
            if constexpr (Long) centroid_aside_[i] = weights_aside_[i] = 0;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) cross_[0][i] = cross_[1][i] = squares_[0][i] = squares_[1][i] = 0;
        counts_[0] = counts_[1] = 0;
    }

    /// Tensor cores round down: not too many numbers in a row. After `dims` dimensions of each token.
    __device__ __forceinline__ void put_aside(int dims) {
#pragma unroll
        for (int i = 0; i < 4 * Tiles; ++i) {
            centroid_aside_[i] += of_centroid_[i];
            weights_aside_[i] += of_weights_[i];
            of_centroid_[i] = of_weights_[i] = 0;
        }
        if constexpr (counted) {
#pragma unroll
            for (int r = 0; r < 2; ++r) squares_[r][0] += counted_squares(r, dims);
            counts_[0] = counts_[1] = 0;
        }
    }

    __device__ __forceinline__ void multiply(const Stage& stage, int chunk) {
        if constexpr (Half) {
            multiply<false, Shape::centroids>(stage, chunk);
            return;
        }
        if constexpr (Bits == 1) {
            if (call_.centroids == nullptr && !weights_.two_parts) {
                multiply<false, false>(stage, chunk);
                return;
            }
        }
        if (weights_.two_parts) {
            multiply<true, true>(stage, chunk);
        } else {
            multiply<false, true>(stage, chunk);
        }
    }

    /// For the norms: how often each bucket occurs in both chunks.
    __device__ __forceinline__ void count(const Stage& first, const Stage& second) {
        if constexpr (counted) {
            if (!call_.normalize) return;
            counts_[0] = weights_.counts(first.fields[0], second.fields[0]);
            counts_[1] = weights_.counts(first.fields[1], second.fields[1]);
        }
    }

    /// What float16 does not hold of float32 or bfloat16 centroids.
    __device__ __forceinline__ void multiply_second(const Stage& second, int chunk) {
        Fields<Bits> fields[2] = {second.fields[0], second.fields[1]};
        if (!call_.little) {
            fields[0].reverse_bytes();
            fields[1].reverse_bytes();
        }
        if (Dim == 0 && (chunk + 1) * residual_chunk > dim()) {
            fields[0].cut(valid(chunk));
            fields[1].cut(valid(chunk));
        }
        add_second<0>(operands<false, 0>(second, fields, chunk), second, query(chunk, 0, 0));
        add_second<1>(operands<false, 1>(second, fields, chunk), second, query(chunk, 1, 0));
    }

    [[nodiscard]] __device__ __forceinline__ float of_centroid(int at) const {
        return Long ? centroid_aside_[at] : of_centroid_[at];
    }
    [[nodiscard]] __device__ __forceinline__ float of_weights(int at) const {
        return Long ? weights_aside_[at] : of_weights_[at];
    }

    __device__ __forceinline__ ResidualFactors factors_of(const float2& rest, int r) const {
        ResidualFactors f{rest.y, weights_.inverse_scale, true};
        if (!call_.normalize) {
            if constexpr (Half) f.certain = weights_.finite && rest.x < __builtin_huge_valf();
            return f;
        }
        float squares = 0;
        if constexpr (counted) {
            squares = Long ? squares_[r][0] : counted_squares(r, dim());
        } else {
            squares = diagonal(squares_[r], r) * weights_.inverse_scale * weights_.inverse_scale;
        }
        const float cross = diagonal(cross_[r], r) * rest.y * weights_.inverse_scale;
        const float of_both = rest.x + squares;
        const float sum = fmaf(2.0F, cross, of_both);
        f.certain = sum >= 0.25F * of_both && sum > 1e-30F && sum < 1e30F;
        const float inverse = __frsqrt_rn(sum);
        f.centroid *= inverse;
        f.weights *= inverse;
        return f;
    }

  private:
    /// Of a token, of which each of four lanes counted a part.
    [[nodiscard]] __device__ __forceinline__ float counted_squares(int r, int dims) const {
        std::uint32_t counts = counts_[r];
        counts += exchange(counts, 1);
        counts += exchange(counts, 2);
        return weights_.squares(counts, dims);
    }

    /// Two: weights have a second part. Centroids: there are some; sign bits have none.
    template <bool Two, bool Centroids>
    __device__ __forceinline__ void multiply(const Stage& stage, int chunk) {
        Fields<Bits> fields[2] = {stage.fields[0], stage.fields[1]};
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (!Half && !call_.little) fields[r].reverse_bytes();
            if (Dim == 0 && (chunk + 1) * residual_chunk > dim()) fields[r].cut(valid(chunk));
            if constexpr (counted) {
                if (!Half) counts_[r] += weights_.counts(fields[r]);
            }
        }
        multiply_half<Two, Centroids, 0>(stage, fields, chunk);
        multiply_half<Two, Centroids, 1>(stage, fields, chunk);
    }

    [[nodiscard]] __device__ __forceinline__ bool two_query_parts() const {
        return Shape::query_parts == 0 ? call_.query_parts == 2 : Shape::query_parts == 2;
    }

    [[nodiscard]] __device__ __forceinline__ int dim() const {
        return Dim != 0 ? Dim : static_cast<int>(call_.call.params.dim);
    }

    /// Dimensions from the lane's first of a chunk on.
    __device__ __forceinline__ int valid(int chunk) const {
        return dim() - chunk * residual_chunk - lane_ % 4 * residual_lane_dims;
    }
    /// Registers of two steps, in the order that the matrix unit has them.
    struct Operands {
        std::uint32_t centroid[2][4];
        std::uint32_t high[2][4];
        std::uint32_t low[2][4];
    };

    template <bool Two, int Step>
    __device__ __forceinline__ Operands operands(const Stage& stage, const Fields<Bits> (&fields)[2], int chunk) const {
        Operands x;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            centroid_registers(stage.centroid[r][Step], r, x.centroid);
            WeightRegisters w;
            weights_.template look_up<Two, Step>(fields[r], w);
            if (Dim == 0 && (chunk + 1) * residual_chunk > dim()) cut<Bits, Step>(w, valid(chunk));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                x.high[i / 2][r + i % 2 * 2] = w.high[i / 2][i % 2];
                if constexpr (Two) x.low[i / 2][r + i % 2 * 2] = w.low[i / 2][i % 2];
            }
        }
        return x;
    }

    __device__ __forceinline__ void centroid_registers(const uint4& from, int r, std::uint32_t (&to)[2][4]) const {
        to[0][r] = kept(from.x);
        to[0][r + 2] = kept(from.y);
        to[1][r] = kept(from.z);
        to[1][r + 2] = kept(from.w);
    }
    /// A copy for good: otherwise registers are moved anew to where each matrix instruction wants them.
    [[nodiscard]] __device__ __forceinline__ std::uint32_t kept(std::uint32_t value) const {
        return Half ? select_bytes(value, value, same_) : value;
    }

    template <bool Two, bool Centroids, int Step>
    __device__ __forceinline__ void multiply_half(const Stage& stage, const Fields<Bits> (&fields)[2], int chunk) {
        const Operands x = operands<Two, Step>(stage, fields, chunk);
        const bool norms = Centroids && call_.normalize;
        add_products<Two, Centroids>(x, query(chunk, Step, 0), [&](int t) {
            if (norms) add_norms<Two, Step>(x, stage, t);
        });
        if (two_query_parts()) add_products<false, Centroids>(x, query(chunk, Step, 1), [](int) {});
    }

    /// A lane's part of the first of the query rows, for two steps.
    __device__ __forceinline__ const std::byte* query(int chunk, int half, int part) const {
        return queries_ + (part * 8 * Tiles + lane_ / 4) * residual_query_bytes(dim()) +
               (chunk * residual_chunk + lane_ % 4 * residual_lane_dims) * 2 + half * 16;
    }

    /// A matrix instruction that adds to the sums of the one before it would wait for that: first come others, and
    /// `between(t)`, which may issue some more for step t.
    template <bool Two, bool Centroids, class F>
    __device__ __forceinline__ void add_products(const Operands& x, const std::byte* queries, F between) {
        constexpr auto f16 = TokenType::f16;
        constexpr int together = Tiles > 1 ? 2 : 1;
#pragma unroll
        for (int tile = 0; tile < Tiles; tile += together) {
            uint4 q[together];
#pragma unroll
            for (int i = 0; i < together; ++i) {
                q[i] = *reinterpret_cast<const uint4*>(queries + (tile + i) * 8 * residual_query_bytes(dim()));
            }
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                const auto add = [&](float* sums, const std::uint32_t(&a)[4]) {
#pragma unroll
                    for (int i = 0; i < together; ++i) {
                        multiply_add<f16>(sums + 4 * (tile + i), a, t == 0 ? q[i].x : q[i].z, t == 0 ? q[i].y : q[i].w);
                    }
                };
                if constexpr (Centroids) add(of_centroid_, x.centroid[t]);
                add(of_weights_, x.high[t]);
                if constexpr (Two) add(of_weights_, x.low[t]);
                if (t == 0 && tile < 2 * together) between(tile / together);
            }
        }
        if constexpr (Tiles <= together) between(1);
    }

    /// Tokens x tokens, weights times the first eight's centroids and the second's: what is wanted lies on the
    /// diagonal.
    template <bool Two, int Step>
    __device__ __forceinline__ void add_norms(const Operands& x, const Stage& stage, int t) {
        constexpr auto f16 = TokenType::f16;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const uint4& c = stage.centroid[r][Step];
            const std::uint32_t first = t == 0 ? c.x : c.z;
            const std::uint32_t second = t == 0 ? c.y : c.w;
            multiply_add<f16>(cross_[r], x.high[t], first, second);
            if constexpr (Two) multiply_add<f16>(cross_[r], x.low[t], first, second);
            if constexpr (!counted) {
                multiply_add<f16>(squares_[r], x.high[t], x.high[t][r], x.high[t][r + 2]);
                if constexpr (Two) {
                    multiply_add<f16>(squares_[r], x.high[t], twice(x.low[t][r]), twice(x.low[t][r + 2]));
                }
            }
        }
    }

    static __device__ __forceinline__ std::uint32_t twice(std::uint32_t two) {
        const __half2 x = *reinterpret_cast<const __half2*>(&two);
        const __half2 sum = __hadd2(x, x);
        return *reinterpret_cast<const std::uint32_t*>(&sum);
    }

    template <int Step>
    __device__ __forceinline__ void add_second(const Operands& x, const Stage& second, const std::byte* queries) {
        constexpr auto f16 = TokenType::f16;
#pragma unroll
        for (int t = 0; t < 2; ++t) {
#pragma unroll
            for (int tile = 0; tile < Tiles; ++tile) {
                const std::byte* row = queries + tile * 8 * residual_query_bytes(dim()) + t * 8;
                const uint2 q = *reinterpret_cast<const uint2*>(row);
                multiply_add<f16>(&of_centroid_[4 * tile], x.centroid[t], q.x, q.y);
            }
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const uint4& c = second.centroid[r][Step];
                multiply_add<f16>(cross_[r], x.high[t], t == 0 ? c.x : c.z, t == 0 ? c.y : c.w);
            }
        }
    }

    /// The diagonal's element of token lane / 4 of eight.
    __device__ __forceinline__ float diagonal(const float (&products)[4], int r) const {
        const float own = lane_ / 4 % 2 == 0 ? products[2 * r] : products[2 * r + 1];
        return from_lane(own, lane_ / 4 * 4 + lane_ / 8);
    }

    const ResidualArguments& call_;
    const std::byte* queries_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    Weights<Bits, Half> weights_;
    std::uint32_t same_;  ///< selects the bytes of a register as they are, which the compiler cannot know
    float of_centroid_[4 * Tiles];
    float of_weights_[4 * Tiles];
    float centroid_aside_[Long ? 4 * Tiles : 1];
    float weights_aside_[Long ? 4 * Tiles : 1];
    float cross_[2][4];
    float squares_[2][4];
    std::uint32_t counts_[2];
};

}  // namespace rowmax::cuda
