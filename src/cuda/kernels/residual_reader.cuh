// Residual documents on their way to registers: where a tile's tokens are, and a lane's part of 64 of their dimensions.
#pragma once

#include "cuda/kernels/residual_fields.cuh"

namespace rowmax::cuda {

/// Two tokens of a tile: number lane / 4, and the eighth behind it.
struct ResidualPlace {
    int base = 0;
    int code[2] = {0, 0};
};

/// A lane's part of a chunk of these.
template <int Bits>
struct ResidualStage {
    uint4 centroid[2][2];
    Fields<Bits> fields[2];
};

/// Of one document, up to a token. Dim: the dimensions that a kernel was compiled for, whole chunks whose bytes a lane
/// loads at once; 0: any.
template <int Bits, int Dim>
class ResidualReader {
  public:
    using Stage = ResidualStage<Bits>;

    __device__ __forceinline__ ResidualReader(const ResidualArguments& call, std::int64_t item, int end)
        : call_(call),
          first_code_(call.codes == nullptr ? 0 : call.steps.first(call.call.params.d, item)),
          data_(call.call.params.d.at(item).data),
          end_(end) {}

    [[nodiscard]] __device__ __forceinline__ int end() const { return end_; }

    /// Behind the end the last token stands in for others.
    [[nodiscard]] __device__ __forceinline__ ResidualPlace find(int base) const {
        ResidualPlace place;
        place.base = base;
        if (base >= end_) return place;
#pragma unroll
        for (int r = 0; r < 2; ++r) place.code[r] = static_cast<int>(token(token_of(base, r)).code);
        return place;
    }

    [[nodiscard]] __device__ __forceinline__ const std::byte* row(int number) const {
        return data_ + std::int64_t{number} * call_.call.params.d.row_stride;
    }

    [[nodiscard]] __device__ __forceinline__ ResidualToken token(int number) const {
        return {row(number), code_at(call_, first_code_ + std::int64_t{number} * call_.steps.token)};
    }

    [[nodiscard]] __device__ __forceinline__ Stage fetch(const ResidualPlace& place, int chunk) const {
        const int before = (chunk * residual_chunk + lane_ % 4 * residual_lane_dims) * Bits / 8;
        Stage stage;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            load_centroid(place, r, chunk, 0, stage.centroid[r]);
            const std::byte* row = data_ + std::int64_t{token_of(place.base, r)} * call_.call.params.d.row_stride;
            if constexpr (Dim != 0) {
                stage.fields[r].load(row + before);
            } else {
                stage.fields[r].load(row + before, (dim() * Bits + 7) / 8 - before, call_.fields_by_lane);
            }
        }
        return stage;
    }

    /// The second part of centroids, in the place of the first.
    [[nodiscard]] __device__ __forceinline__ Stage second(const ResidualPlace& place, int chunk,
                                                          const Stage& first) const {
        Stage stage = first;
        load_centroid(place, 0, chunk, 1, stage.centroid[0]);
        load_centroid(place, 1, chunk, 1, stage.centroid[1]);
        return stage;
    }

  private:
    [[nodiscard]] __device__ __forceinline__ int dim() const {
        return Dim != 0 ? Dim : static_cast<int>(call_.call.params.dim);
    }

    [[nodiscard]] __device__ __forceinline__ int token_of(int base, int r) const {
        const int token = base + lane_ / 4 + 8 * r;
        return token < end_ ? token : end_ - 1;
    }

    __device__ __forceinline__ void load_centroid(const ResidualPlace& place, int r, int chunk, int part,
                                                  uint4 (&to)[2]) const {
        const std::int64_t row = residual_row(dim());
        const std::int64_t element = (std::int64_t{place.code[r]} * (Dim != 0 ? 1 : call_.table.parts) + part) * row +
                                     chunk * residual_chunk + lane_ % 4 * residual_lane_dims;
        const auto* from = reinterpret_cast<const uint4*>(call_.table.rows + element * 2);
        to[0] = __ldg(from);
        to[1] = __ldg(from + 1);
    }

    const ResidualArguments& call_;
    std::int64_t first_code_;
    const std::byte* data_;
    int end_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
};

}  // namespace rowmax::cuda
