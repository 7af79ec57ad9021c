// Scales of tokens that are codes: those of a tile's tokens, which a warp brings into shared memory or only into L2,
// and those of query rows.
#pragma once

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/document_ring.cuh"
#include "cuda/prim/copy_async.cuh"

namespace rowmax::cuda {

inline constexpr int scales_of_stage_bytes = tile_tokens * static_cast<int>(sizeof(float));

/// A warp's share in a ring: it copies scales into the slots' side, and arrives at their full barriers once each.
/// Copies are waited for some slots later: until then a slot is *open*. (To let the barrier count the copies as they
/// end, cp.async.mbarrier.arrive, would be shorter, but launches in a row then failed now and then.)
class ScaleCopies {
  public:
    __device__ __forceinline__ ScaleCopies(DocumentRing& ring, const Arguments& call, std::uint32_t scales, int stages)
        : ring_(ring), call_(call), scales_(scales), stages_(stages) {}

    /// Waits until the slot that comes next is empty.
    __device__ __forceinline__ void make_room() {
        while (!next_is_empty()) {
            if (open_ > 0) close_oldest();
        }
        if (open_ == most_open) close_oldest();
    }
    /// Then: for this slot the scales of `count` tokens from number `first` on, or none.
    __device__ __forceinline__ void bring(std::int64_t first, int count) {
        if (count > 0) copy(scales_ + next_.slot * scales_of_stage_bytes, first, count);
        close_copy_group();
        next_.advance(stages_);
        ++open_;
    }
    __device__ __forceinline__ void end() {
        while (open_ > 0) close_oldest();
    }

  private:
    static constexpr int most_open = 7;

    // Readers may wait for what is open before they leave a slot.
    __device__ __forceinline__ bool next_is_empty() {
        const bool empty = uniform(has_passed(&ring_.empty[next_.slot], next_.phase ^ 1U) ? 1 : 0) != 0;
        __syncwarp();
        return empty;
    }

    __device__ __forceinline__ void copy(std::uint32_t to, std::int64_t first, int count) const {
        const core::Scales& scales = call_.d_scales;
        const std::int64_t step = scales.steps.token;
        const float* from = scales.data + first;
        const auto lane = static_cast<int>(threadIdx.x % 32);
        if (step == 1 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
            const int left = (count - 4 * lane) * static_cast<int>(sizeof(float));
            if (left > 0) copy_up_to_16_bytes(to + 16 * lane, from + 4 * lane, left < 16 ? left : 16);
            return;
        }
#pragma unroll
        for (int t = 0; t < tile_tokens; t += 32) {
            if (lane + t < count) copy_4_bytes(to + 4 * (lane + t), from + (lane + t) * step);
        }
    }

    __device__ __forceinline__ void close_oldest() {
        --open_;
        wait_for_copies(open_);
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&ring_.full[oldest_]);
        oldest_ = oldest_ + 1 == stages_ ? 0 : oldest_ + 1;
    }

    __device__ __forceinline__ static void wait_for_copies(int open) {
        static_assert(most_open == 7);
        switch (open) {
            case 0: return wait_copy_groups<0>();
            case 1: return wait_copy_groups<1>();
            case 2: return wait_copy_groups<2>();
            case 3: return wait_copy_groups<3>();
            case 4: return wait_copy_groups<4>();
            case 5: return wait_copy_groups<5>();
            default: return wait_copy_groups<6>();
        }
    }

    DocumentRing& ring_;
    const Arguments& call_;
    const std::uint32_t scales_;  ///< of the ring's slots, in shared memory
    const int stages_;
    RingPlace next_;
    int oldest_ = 0;
    int open_ = 0;
};

/// Has the scales of `count` tokens in L2 by the time that they are asked for, by a whole warp.
__device__ __forceinline__ void fetch_scales(const core::Scales& scales, std::int64_t first, int count) {
    constexpr int of_line = 32;
    const int token = static_cast<int>(threadIdx.x % 32) * of_line;
    if (token >= count + of_line) return;
    prefetch_to_l2(scales.data + first + (token < count ? token : count - 1) * scales.steps.token);
}

/// Begins to copy the scales of `count` tokens, the first of which is `first`, by a whole warp.
__device__ __forceinline__ void copy_scales(std::uint32_t to, const core::Scales& scales, std::int64_t first,
                                            int count) {
    for (int t = static_cast<int>(threadIdx.x % 32); t < count; t += 32) {
        copy_4_bytes(to + 4 * t, scales.data + first + t * scales.steps.token);
    }
}

/// What a query row's maxima are multiplied by.
__device__ __forceinline__ float scale_of_row(const Arguments& call, const Row& row) {
    if (!row.kept) return 1;
    const core::Scales& scales = call.q_scales;
    return scales.data[scales.steps.first(call.params.q, row.query) + row.position * scales.steps.token];
}

}  // namespace rowmax::cuda
