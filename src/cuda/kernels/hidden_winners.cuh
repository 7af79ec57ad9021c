// Which tokens of each document won, once each and in ascending order, and which of them every query token chose.
//
// A thread block has a document. A bit of shared memory for each token of a window of 65536; the bits below a token's
// are its place among the winners.
#pragma once

#include "cuda/kernels/hidden_kernels.hpp"
#include "cuda/prim/warp.cuh"

namespace rowmax::cuda {

struct WinnerWindow {
    std::uint32_t won[winner_words];
    std::int32_t before[winner_words];  ///< winners of the window before the word's
    std::int32_t of_warp[32];
};

class DocumentWinners {
  public:
    __device__ __forceinline__ DocumentWinners(WinnerWindow& window, const core::HiddenWinners& call)
        : window_(window), call_(call), document_(blockIdx.x), first_row_(call.first_row), length_(call.length) {
        if (call.starts == nullptr) {
            first_row_ += document_ * call.length;
        } else {
            first_row_ = core::detail::read_int(call.starts, call.wide_starts, document_);
            length_ = core::detail::read_int(call.starts, call.wide_starts, document_ + 1) - first_row_;
        }
    }

    __device__ __forceinline__ void run() {
        std::int64_t winners = 0;
        for (std::int64_t first = 0; first == 0 || first < length_; first += winner_window) {
            const std::int64_t left = length_ - first;
            words_ = static_cast<int>((left < winner_window ? (left < 0 ? 0 : left) : winner_window) + 31) / 32;
            mark(first);
            const int found = count();
            name(first, winners);
            list(first, winners);
            winners += found;
        }
        std::int64_t* rows = call_.rows + document_ * call_.places;
        for (std::int64_t i = winners + threadIdx.x; i < call_.places; i += blockDim.x) rows[i] = -1;
    }

  private:
    /// Calls f(position in the results, token) for every query token.
    template <class F>
    __device__ __forceinline__ void for_sources(F f) const {
        const auto sources = static_cast<std::uint32_t>(call_.sources());
        const auto length = static_cast<std::uint32_t>(call_.query_length);
        for (std::uint32_t s = threadIdx.x; s < sources; s += blockDim.x) {
            const std::uint32_t query = s / length;
            const std::int64_t within = document_ * call_.query_length + (s - query * length);
            f(std::int64_t{query} * call_.documents * call_.query_length + within,
              call_.index[query * call_.query_stride + within]);
        }
    }

    __device__ __forceinline__ void mark(std::int64_t first) {
        for (int w = static_cast<int>(threadIdx.x); w < words_; w += static_cast<int>(blockDim.x)) window_.won[w] = 0;
        __syncthreads();
        for_sources([&](std::int64_t, std::int32_t token) {
            const std::int64_t bit = token - first;
            if (bit >= 0 && bit < winner_window && token < length_) atomicOr(&window_.won[bit / 32], 1U << bit % 32);
        });
        __syncthreads();
    }

    /// Winners of the window. Each thread adds up some words in turn.
    __device__ __forceinline__ int count() {
        const auto lane = static_cast<int>(threadIdx.x % 32);
        const auto warp = static_cast<int>(threadIdx.x / 32);
        const int each = (words_ + static_cast<int>(blockDim.x) - 1) / static_cast<int>(blockDim.x);
        const int begin = min(static_cast<int>(threadIdx.x) * each, words_);
        const int end = min(begin + each, words_);
        int own = 0;
        for (int w = begin; w < end; ++w) own += __popc(window_.won[w]);
        int up_to = own;  // of the lanes up to this one
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int lower = __shfl_up_sync(all_lanes, up_to, distance);
            if (lane >= distance) up_to += lower;
        }
        if (lane == 31) window_.of_warp[warp] = up_to;
        __syncthreads();
        int before = up_to - own;
        int all = 0;
        for (int w = 0; w < static_cast<int>(blockDim.x / 32); ++w) {
            if (w < warp) before += window_.of_warp[w];
            all += window_.of_warp[w];
        }
        for (int w = begin; w < end; ++w) {
            window_.before[w] = before;
            before += __popc(window_.won[w]);
        }
        __syncthreads();
        return all;
    }

    __device__ __forceinline__ void name(std::int64_t first, std::int64_t winners) const {
        for_sources([&](std::int64_t at, std::int32_t token) {
            const std::int64_t bit = token - first;
            if (token < 0 || token >= length_) {
                if (first == 0) call_.place[at] = -1;
            } else if (bit >= 0 && bit < winner_window) {
                const std::uint32_t below = window_.won[bit / 32] & ((1U << bit % 32) - 1);
                call_.place[at] = static_cast<std::int32_t>(winners + window_.before[bit / 32] + __popc(below));
            }
        });
    }

    __device__ __forceinline__ void list(std::int64_t first, std::int64_t winners) const {
        std::int64_t* rows = call_.rows + document_ * call_.places;
        for (int w = static_cast<int>(threadIdx.x); w < words_; w += static_cast<int>(blockDim.x)) {
            std::int64_t at = winners + window_.before[w];
            for (std::uint32_t left = window_.won[w]; left != 0; left &= left - 1, ++at) {
                if (at < call_.places) rows[at] = first_row_ + first + 32 * w + __ffs(static_cast<int>(left)) - 1;
            }
        }
        __syncthreads();  // before the next window's bits
    }

    WinnerWindow& window_;
    const core::HiddenWinners& call_;
    const std::int64_t document_;
    std::int64_t first_row_;
    std::int64_t length_;
    int words_ = 0;
};

__global__ void __launch_bounds__(winner_threads_most)
    hidden_winners(const __grid_constant__ core::HiddenWinners call) {
    __shared__ WinnerWindow window;
    DocumentWinners(window, call).run();
}

}  // namespace rowmax::cuda
