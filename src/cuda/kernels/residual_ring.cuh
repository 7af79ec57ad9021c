// Residual documents on their way through shared memory: each warp has a ring of its own, of two tiles. While one is
// multiplied, the rows of the next one's centroids and its packed bytes are on their way, and the codes of the tile
// behind that.
#pragma once

#include "cuda/kernels/residual_reader.cuh"
#include "cuda/kernels/residual_shape.hpp"
#include "cuda/prim/address.cuh"
#include "cuda/prim/copy_async.cuh"

namespace rowmax::cuda {

template <class Shape>
struct ResidualRing {
    static constexpr int centroid_row = Shape::dim * 2;
    static constexpr int bytes_row = Shape::dim * Shape::bits / 8;
    static constexpr int centroids = Shape::centroids ? residual_tile * centroid_row : 0;
    static constexpr int slot = centroids + residual_tile * bytes_row;
    static constexpr int slots = 2;
    static constexpr int bytes = slots * slot;
};

/// Of one document, up to a token. Pieces of 16 bytes of a centroid's row lie in an order that depends on the token, so
/// that eight tokens meet no bank twice.
template <class Shape>
class ResidualRingReader {
    using Ring = ResidualRing<Shape>;
    static constexpr int Bits = Shape::bits;

  public:
    using Stage = ResidualStage<Bits>;

    __device__ __forceinline__ ResidualRingReader(const ResidualArguments& call, std::int64_t item, int end,
                                                  std::byte* ring)
        : call_(call), tokens_(call, item, end), ring_(ring), end_(end) {}

    [[nodiscard]] __device__ __forceinline__ int end() const { return end_; }
    [[nodiscard]] __device__ __forceinline__ ResidualToken token(int number) const { return tokens_.token(number); }

    /// Of the first tile.
    __device__ __forceinline__ void find(int base) {
        if constexpr (Shape::centroids) {
            const int token = base + lane_ % residual_tile;
            code_ = static_cast<int>(tokens_.token(token < end_ ? token : end_ - 1).code);
        }
    }

    /// Asks for a tile whose codes were found, and finds those of the next. Behind the end the last token stands in for
    /// others.
    __device__ __forceinline__ void ask(int base, int slot) {
        square_ = next_square_;
        if (base < end_) {
            copy_bytes(base, slot);
            if constexpr (Shape::centroids) {
                copy_centroids(slot);
                next_square_ = __ldg(&call_.table.rest[code_].x);
                if (base + residual_tile < end_) find(base + residual_tile);
            }
        }
        close_copy_group();
    }

    /// The square of the norm of token r's centroid, of the tile asked for before the last one.
    [[nodiscard]] __device__ __forceinline__ float2 rest(int r) const {
        return make_float2(Shape::centroids ? from_lane(square_, lane_ / 4 + 8 * r) : 0.0F, 1.0F);
    }

    /// Of a tile that has arrived.
    [[nodiscard]] __device__ __forceinline__ Stage stage(int slot, int chunk) const {
        const std::byte* from = ring_ + slot * Ring::slot;
        const int row = lane_ / 4;
        Stage stage;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if constexpr (Shape::centroids) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int piece = 8 * chunk + ((lane_ % 4 * 2 + half) ^ row);
                    stage.centroid[r][half] =
                        *reinterpret_cast<const uint4*>(from + (row + 8 * r) * Ring::centroid_row + piece * 16);
                }
            }
            stage.fields[r].take(from + Ring::centroids + (row + 8 * r) * Ring::bytes_row +
                                 (chunk * residual_chunk + lane_ % 4 * residual_lane_dims) * Bits / 8);
        }
        return stage;
    }

  private:
    __device__ __forceinline__ void copy_centroids(int slot) const {
        static_assert(Ring::centroid_row == 256);  // two tokens for the lanes of a warp
        const std::uint32_t to = shared_address(ring_) + slot * Ring::slot + lane_ * 16;
        const auto own = static_cast<std::uint32_t>((lane_ % 16) ^ (lane_ / 16)) * 16;
        const std::uint32_t row = static_cast<std::uint32_t>(code_) * Ring::centroid_row;
#pragma unroll
        for (int i = 0; i < residual_tile / 2; ++i) {
            const std::uint32_t from = from_lane(row, 2 * i + lane_ / 16) | (own ^ (2 * i % 8 * 16));
            copy_16_bytes(to + 2 * i * Ring::centroid_row, bytes_behind(call_.table.rows, from));
        }
    }

    __device__ __forceinline__ void copy_bytes(int base, int slot) const {
        const std::uint32_t to = shared_address(ring_) + slot * Ring::slot + Ring::centroids;
#pragma unroll
        for (int first = 0; first < residual_tile * Bits; first += 32) {
            const int piece = first + lane_;
            if (residual_tile * Bits < 32 && piece >= residual_tile * Bits) break;
            const int token = base + piece / Bits;
            const std::byte* row = tokens_.row(token < end_ ? token : end_ - 1);
            copy_16_bytes(to + piece * 16, row + piece % Bits * 16);
        }
    }

    const ResidualArguments& call_;
    const ResidualReader<Bits, Shape::dim> tokens_;
    std::byte* ring_;
    int end_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    int code_ = 0;      ///< of token lane % 16
    float square_ = 0;  ///< likewise
    float next_square_ = 0;
};

}  // namespace rowmax::cuda
