// Inverse norms of the tokens of a tile, found in the ring by two warps beside those that multiply.
//
//   full    barrier of a buffer: one arrival of each of the two warps
//   empty   barrier of a buffer: one arrival of every warp that multiplies
//
// Tiles without kept tokens have none.
#pragma once

#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/products.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/row_norm.cuh"

namespace rowmax::cuda {

inline constexpr int norm_warps = 2;

struct TokenNorms {
    static constexpr int buffers = 4;
    Barrier full[buffers];
    Barrier empty[buffers];
    float inverse[buffers][tile_tokens];
};

/// By one thread, before the block's first barrier.
__device__ __forceinline__ void init_norms(TokenNorms& norms, int reading_warps) {
    for (int b = 0; b < TokenNorms::buffers; ++b) {
        init(&norms.full[b], norm_warps);
        init(&norms.empty[b], static_cast<std::uint32_t>(reading_warps));
    }
}

/// A document token in global memory.
__device__ __forceinline__ const std::byte* token_of(const Arguments& call, const Unit& unit, int token) {
    const core::Segments& d = call.params.d;
    return d.at(document_of(call.params, call.plan, unit)).data + token * d.row_stride;
}

/// What similarities with a token are multiplied by, whose pieces `norm` has seen.
template <TokenType Type>
__device__ __forceinline__ float inverse_for(const Arguments& call, const Unit& unit, int token,
                                             const PassingNorm<Type>& norm) {
    constexpr int count = elements_of_piece<Type>;
    const std::int64_t dim = call.params.dim;
    return inverse_of(norm.norm(static_cast<int>((dim + count - 1) / count), [&](int i) {
        return read_piece<Type>(token_of(call, unit, token), std::int64_t{i} * count, dim, call.d_by_16);
    }));
}

/// Warp `number` of the two: tokens 64 number + lane, and that + 32.
template <TokenType Type>
class NormWarp {
  public:
    __device__ __forceinline__ NormWarp(TokenNorms& norms, DocumentRing& ring, const Arguments& call, int number)
        : norms_(norms), call_(call), reader_(ring, call.stages), first_(64 * number + lane_) {}

    __device__ __forceinline__ void run() {
        const int slots = slots_of_token(call_.params.dim);
        for (;;) {
            const Tile& tile = reader_.next();
            const TileFlags flags{uniform(tile.flags.bits)};
            if (flags.stop()) return;
            if (flags.boxes() == 0) {
                reader_.leave();
                continue;
            }
            const std::uint32_t keep[2] = {tile.keep[first_ / 32], tile.keep[first_ / 32 + 1]};
            const Unit unit = tile.unit;
            const int base = tile.base;
            PassingNorm<Type> norm[2];
            for (int s = 0; s < slots; ++s) {
                if (s > 0) reader_.wait_full();
                add_slot(norm);
                reader_.leave();
            }
            wait(&norms_.empty[out_.slot], out_.phase ^ 1U);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int token = first_ + 32 * i;
                // Others may hold anything.
                if ((keep[i] >> lane_ & 1U) == 0) continue;
                norms_.inverse[out_.slot][token] = inverse_for<Type>(call_, unit, base + token, norm[i]);
            }
            __syncwarp();
            if (lane_ == 0) arrive(&norms_.full[out_.slot]);
            out_.advance(TokenNorms::buffers);
        }
    }

  private:
    __device__ __forceinline__ void add_slot(PassingNorm<Type> (&norm)[2]) const {
#pragma unroll
        for (int p = 0; p < pieces_of_slot; ++p) {
#pragma unroll
            for (int i = 0; i < 2; ++i) norm[i].add(reader_.piece(first_ + 32 * i, p));
        }
    }

    TokenNorms& norms_;
    const Arguments& call_;
    DocumentReader reader_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    const int first_;
    RingPlace out_;
};

/// For a warp that multiplies: the norms of its tiles, one after the other.
class NormReader {
  public:
    __device__ __forceinline__ explicit NormReader(TokenNorms& norms) : norms_(norms) {}

    /// Multiplies products with tokens `first` and on of the next tile.
    template <int RowTiles, int Columns>
    __device__ __forceinline__ void scale(Products<Columns> (&products)[RowTiles], int first) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        wait(&norms_.full[in_.slot], in_.phase);
        const float* inverse = norms_.inverse[in_.slot] + first + 2 * (lane % 4);
#pragma unroll
        for (int c = 0; c < Columns / 4; c += 2) {
            const auto two = *reinterpret_cast<const float2*>(inverse + offset_of(c));
#pragma unroll
            for (int i = 0; i < RowTiles; ++i) {
                float* value = products[i].value + c * 2;
                value[0] *= two.x;
                value[1] *= two.y;
                value[2] *= two.x;
                value[3] *= two.y;
            }
        }
        leave();
    }

    /// Without a look at them.
    __device__ __forceinline__ void skip() {
        wait(&norms_.full[in_.slot], in_.phase);
        leave();
    }

  private:
    __device__ __forceinline__ void leave() {
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&norms_.empty[in_.slot]);
        in_.advance(TokenNorms::buffers);
    }

    TokenNorms& norms_;
    RingPlace in_;
};

}  // namespace rowmax::cuda
