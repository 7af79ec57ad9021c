// Inverse norms of document tokens, found in the ring by the warps that multiply, while they wait for their products.
#pragma once

#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/products.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/row_norm.cuh"
#include "cuda/prim/shared.cuh"

namespace rowmax::cuda {

/// Adds the squares of what a slot holds of a token; with two Lanes, of this lane's half of each piece. Batch: loads
/// under way at once, since the matrix unit keeps shared memory busy.
template <int Batch, TokenType Type, int Lanes>
__device__ __forceinline__ void add_squares(PassingNorm<Type, Lanes>& norm, const DocumentReader& reader, int slot,
                                            int token) {
    const std::uint32_t half = Lanes == 2 ? threadIdx.x % 2 * 8 : 0;
    const std::uint32_t row = reader.token(slot, token) + half;
#pragma unroll
    for (int first = 0; first < pieces_of_slot; first += Batch) {
        std::uint32_t parts[Batch][4 / Lanes];
#pragma unroll
        for (int p = 0; p < Batch; ++p) load_shared(row ^ 16 * (first + p), parts[p]);
#pragma unroll
        for (int p = 0; p < Batch; ++p) norm.add(parts[p]);
    }
}

/// What similarities with a token are multiplied by that must be read once more.
template <TokenType Type>
__device__ __forceinline__ float inverse_of_far(const Arguments& call, const Unit unit, int token) {
    const core::Segments& d = call.params.d;
    const std::byte* row = d.at(document_of(call.params, call.plan, unit)).data + token * d.row_stride;
    const std::int64_t dim = call.params.dim;
    return inverse_of(scaled_norm<Type>(static_cast<int>((dim + 7) / 8),
                                        [&](int i) { return read_piece<Type>(row, std::int64_t{i} * 8, dim, false); }));
}

/// Whether token `token` of the tile is kept.
__device__ __forceinline__ bool keeps(const TileHead& head, int token) {
    // Not a choice between loads, which would make memory of the head.
    std::uint32_t bits = 0;
#pragma unroll
    for (int b = 0; b < boxes_of_tile; ++b) bits |= head.keep[b] & (token / box_tokens == b ? all_lanes : 0U);
    return (bits >> (token % box_tokens) & 1U) != 0;
}

/// Inverse norms of tiles, on their way from the warps that found them to all that use them. Where tokens may be far
/// from magnitude 1, a warp of its own looks after those: code for them among the products costs registers.
///
///   found   barrier of a buffer: one arrival of every warp that finds norms
///   ready   barrier of a buffer: the far warp's
///
/// Four buffers need no barrier for what is empty: who finds the norms of tile n + 2 has used those of n, and nobody
/// else is further behind than at n, since warpgroups take turns with tiles.
struct TileNorms {
    static constexpr int buffers = 4;
    static constexpr int most_warps = 8;
    static constexpr float far = -1;  ///< in the place of an inverse
    struct Note {
        Unit unit;
        std::int32_t base;
        std::int32_t begin;  ///< tokens of the tile whose norms were found
        std::int32_t end;
        std::int32_t stop;
    };
    Barrier found[buffers];
    Barrier ready[buffers];
    Note notes[buffers];
    std::uint32_t any_far[buffers][most_warps];
    alignas(16) float inverse[buffers][tile_tokens];
};

/// By one thread, before the block's first barrier.
__device__ __forceinline__ void init_norms(TileNorms& norms, int warps) {
    for (int b = 0; b < TileNorms::buffers; ++b) {
        init(&norms.found[b], static_cast<std::uint32_t>(warps));
        init(&norms.ready[b], 1);
    }
}

template <TokenType Type>
inline constexpr bool may_be_far = Type == TokenType::bf16;

/// The view of one of the warps that find and use them. `warp`: its number among these.
template <TokenType Type>
class NormsOfTiles {
  public:
    __device__ __forceinline__ NormsOfTiles(TileNorms& norms, int warp) : norms_(norms), warp_(warp) {}

    /// The next tile's norm of `token`; tokens [begin, end) all have somebody who finds theirs.
    template <int Lanes>
    __device__ __forceinline__ void put(const TileHead& head, int token, int begin, int end,
                                        const PassingNorm<Type, Lanes>& norm) {
        const float squares = norm.sum();
        float inverse = inverse_root(squares);
        if constexpr (may_be_far<Type>) {
            const bool far = norm.far(squares) && keeps(head, token);
            if (far) inverse = TileNorms::far;
            const std::uint32_t any = ballot(far);
            if (lane_ == 0) norms_.any_far[found_.slot][warp_] = any;
            if (lane_ == 0 && warp_ == 0) norms_.notes[found_.slot] = {head.unit, head.base, begin, end, 0};
        }
        if (Lanes == 1 || lane_ % Lanes == 0) norms_.inverse[found_.slot][token] = inverse;
        send();
    }

    /// Waits for the oldest tile's that were not used yet.
    __device__ __forceinline__ const float* next() {
        wait(may_be_far<Type> ? &norms_.ready[used_.slot] : &norms_.found[used_.slot], used_.phase);
        const float* inverse = norms_.inverse[used_.slot];
        used_.advance(TileNorms::buffers);
        return inverse;
    }

    /// No more tiles.
    __device__ __forceinline__ void stop() {
        if constexpr (may_be_far<Type>) {
            if (lane_ == 0 && warp_ == 0) norms_.notes[found_.slot].stop = 1;
            send();
        }
    }

  private:
    __device__ __forceinline__ void send() {
        __syncwarp();
        if (lane_ == 0) arrive(&norms_.found[found_.slot]);
        found_.advance(TileNorms::buffers);
    }

    TileNorms& norms_;
    const int warp_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    RingPlace found_;
    RingPlace used_;
};

/// The far warp. `warps`: how many find norms.
template <TokenType Type>
__device__ __forceinline__ void look_after_far_tokens(TileNorms& norms, const Arguments& call, int warps) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    RingPlace in;
    for (;;) {
        wait(&norms.found[in.slot], in.phase);
        const TileNorms::Note note = norms.notes[in.slot];
        if (note.stop != 0) return;
        if (ballot(lane < warps && norms.any_far[in.slot][lane % TileNorms::most_warps] != 0) != 0) {
            float* inverse = norms.inverse[in.slot];
            for (int token = note.begin + lane; token < note.end; token += 32) {
                if (inverse[token] == TileNorms::far) {
                    inverse[token] = inverse_of_far<Type>(call, note.unit, note.base + token);
                }
            }
            __syncwarp();
        }
        if (lane == 0) arrive(&norms.ready[in.slot]);
        in.advance(TileNorms::buffers);
    }
}

/// Multiplies this thread's columns by `inverse`, which starts with the first column's.
template <int RowTiles, int Columns>
__device__ __forceinline__ void scale_columns(Products<Columns> (&products)[RowTiles], const float* inverse) {
    inverse += 2 * (threadIdx.x % 4);
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
}

}  // namespace rowmax::cuda
