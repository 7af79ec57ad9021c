// Scores of a block whose 32 rows are the lanes of a warp, where nothing else is wanted and every query is whole: the
// same sums as write_scores makes, without a way through shared memory, and with nothing left to be found for each
// document.
#pragma once

#include <cstdint>

#include "cuda/kernels/maximum.cuh"
#include "cuda/kernels/scores.cuh"

namespace rowmax::cuda {

class LaneScores {
  public:
    static constexpr int rows = 32;

    [[nodiscard]] __device__ __forceinline__ static bool takes(const Arguments& call) {
        const Plan& plan = call.plan;
        return plan.blocks == 1 && plan.parts == 1 && plan.blocks_per_query == 1 &&
               call.params.pairs.kind == core::PairKind::cross && call.outputs.similarity == nullptr;
    }

    __device__ __forceinline__ void begin(const Arguments& call, const RowPlace& place) {
        const Plan& plan = call.plan;
        const int lane = static_cast<int>(threadIdx.x % 32);
        place_ = place;
        octs_ = plan.octs_per_query;
        first_ = lane * octs_ * rows_of_oct;
        if (lane >= plan.queries_per_block || lane >= call.params.q.count) return;
        scores_ = static_cast<float*>(call.outputs.scores) + std::int64_t{lane} * plan.width;
    }

    /// The maximum of this lane's row; `seen`: the document has tokens.
    __device__ __forceinline__ void write(int item, float maximum, bool seen) const {
        const float sum = sum_of_oct<1>(place_.adds(maximum, seen));
        float octs[rows / rows_of_oct];
#pragma unroll
        for (int i = 0; i < rows / rows_of_oct; ++i)
            octs[i] = i < octs_ ? from_lane(sum, first_ + i * rows_of_oct) : 0.0F;
        double total = 0;
#pragma unroll
        for (int i = 0; i < rows / rows_of_oct; i += 2) {
            if (i < octs_) total += static_cast<double>(octs[i] + octs[i + 1]);
        }
        if (scores_ != nullptr) scores_[item] = static_cast<float>(total);
    }

  private:
    RowPlace place_;
    int octs_ = 0;
    int first_ = 0;            ///< lane of the query's first row
    float* scores_ = nullptr;  ///< of the query that this lane writes
};

}  // namespace rowmax::cuda
