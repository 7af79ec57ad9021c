// Tokens times query rows, on the matrix units of a warp: sums of 16 tokens of residual documents with 8 Tiles query
// rows, and what their norms are made of.
#pragma once

#include "cuda/kernels/residual_reader.cuh"
#include "cuda/prim/mma.cuh"

namespace rowmax::cuda {

/// What the sums of a token are multiplied by.
struct ResidualFactors {
    float centroid = 1;
    float weights = 1;
    bool certain = true;  ///< else the token's similarities are to be computed directly
};

/// Dim: as for ResidualReader. Long: more than one chain of dimensions.
template <int Bits, int Tiles, int Dim, bool Long>
class ResidualProducts {
  public:
    using Stage = ResidualStage<Bits>;

    /// `table`: of Weights. `queries`: rows in shared memory, a plane of them a part.
    __device__ __forceinline__ ResidualProducts(const ResidualArguments& call, std::uint32_t* table,
                                                const std::byte* queries)
        : call_(call), queries_(queries), weights_(call, table) {}

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
        if constexpr (Weights<Bits>::counted) {
#pragma unroll
            for (int r = 0; r < 2; ++r) squares_[r][0] += counted_squares(r, dims);
            counts_[0] = counts_[1] = 0;
        }
    }

    __device__ __forceinline__ void multiply(const Stage& stage, int chunk) {
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
        if (!call_.normalize) return f;
        float squares = 0;
        if constexpr (Weights<Bits>::counted) {
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
            if (!call_.little) fields[r].reverse_bytes();
            if (Dim == 0 && (chunk + 1) * residual_chunk > dim()) fields[r].cut(valid(chunk));
            if constexpr (Weights<Bits>::counted) counts_[r] += weights_.counts(fields[r]);
        }
        multiply_half<Two, Centroids, 0>(stage, fields, chunk);
        multiply_half<Two, Centroids, 1>(stage, fields, chunk);
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

    template <bool Two, int Half>
    __device__ __forceinline__ Operands operands(const Stage& stage, const Fields<Bits> (&fields)[2], int chunk) const {
        Operands x;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            centroid_registers(stage.centroid[r][Half], r, x.centroid);
            WeightRegisters w;
            weights_.template look_up<Two, Half>(fields[r], w);
            if (Dim == 0 && (chunk + 1) * residual_chunk > dim()) cut<Bits, Half>(w, valid(chunk));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                x.high[i / 2][r + i % 2 * 2] = w.high[i / 2][i % 2];
                if constexpr (Two) x.low[i / 2][r + i % 2 * 2] = w.low[i / 2][i % 2];
            }
        }
        return x;
    }

    static __device__ __forceinline__ void centroid_registers(const uint4& from, int r, std::uint32_t (&to)[2][4]) {
        to[0][r] = from.x;
        to[0][r + 2] = from.y;
        to[1][r] = from.z;
        to[1][r + 2] = from.w;
    }

    template <bool Two, bool Centroids, int Half>
    __device__ __forceinline__ void multiply_half(const Stage& stage, const Fields<Bits> (&fields)[2], int chunk) {
        const Operands x = operands<Two, Half>(stage, fields, chunk);
        add_products<Two, Centroids>(x, query(chunk, Half, 0));
        if (call_.query_parts == 2) add_products<false, Centroids>(x, query(chunk, Half, 1));
        if (call_.normalize) add_norms<Two, Half>(x, stage);
    }

    /// A lane's part of the first of the query rows, for two steps.
    __device__ __forceinline__ const std::byte* query(int chunk, int half, int part) const {
        return queries_ + (part * 8 * Tiles + lane_ / 4) * residual_query_bytes(dim()) +
               (chunk * residual_chunk + lane_ % 4 * residual_lane_dims) * 2 + half * 16;
    }

    template <bool Two, bool Centroids>
    __device__ __forceinline__ void add_products(const Operands& x, const std::byte* queries) {
        constexpr auto f16 = TokenType::f16;
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) {
            const uint4 q = *reinterpret_cast<const uint4*>(queries + tile * 8 * residual_query_bytes(dim()));
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                const std::uint32_t first = t == 0 ? q.x : q.z;
                const std::uint32_t second = t == 0 ? q.y : q.w;
                if constexpr (Centroids) multiply_add<f16>(&of_centroid_[4 * tile], x.centroid[t], first, second);
                multiply_add<f16>(&of_weights_[4 * tile], x.high[t], first, second);
                if constexpr (Two) multiply_add<f16>(&of_weights_[4 * tile], x.low[t], first, second);
            }
        }
    }

    /// Tokens x tokens, weights times the first eight's centroids and the second's: what is wanted lies on the
    /// diagonal.
    template <bool Two, int Half>
    __device__ __forceinline__ void add_norms(const Operands& x, const Stage& stage) {
        constexpr auto f16 = TokenType::f16;
#pragma unroll
        for (int t = 0; t < 2; ++t) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const uint4& c = stage.centroid[r][Half];
                const std::uint32_t first = t == 0 ? c.x : c.z;
                const std::uint32_t second = t == 0 ? c.y : c.w;
                multiply_add<f16>(cross_[r], x.high[t], first, second);
                if constexpr (Two) multiply_add<f16>(cross_[r], x.low[t], first, second);
                if constexpr (!Weights<Bits>::counted) {
                    multiply_add<f16>(squares_[r], x.high[t], x.high[t][r], x.high[t][r + 2]);
                    if constexpr (Two) {
                        multiply_add<f16>(squares_[r], x.high[t], twice(x.low[t][r]), twice(x.low[t][r + 2]));
                    }
                }
            }
        }
    }

    static __device__ __forceinline__ std::uint32_t twice(std::uint32_t two) {
        const __half2 x = *reinterpret_cast<const __half2*>(&two);
        const __half2 sum = __hadd2(x, x);
        return *reinterpret_cast<const std::uint32_t*>(&sum);
    }

    template <int Half>
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
                const uint4& c = second.centroid[r][Half];
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
    Weights<Bits> weights_;
    float of_centroid_[4 * Tiles];
    float of_weights_[4 * Tiles];
    float centroid_aside_[Long ? 4 * Tiles : 1];
    float weights_aside_[Long ? 4 * Tiles : 1];
    float cross_[2][4];
    float squares_[2][4];
    std::uint32_t counts_[2];
};

}  // namespace rowmax::cuda
