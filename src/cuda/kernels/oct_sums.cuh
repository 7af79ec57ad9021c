// From warpgroups that hold query rows to the warp that writes scores: sums of octs of finished units, in shared
// memory.
//
//   full    barrier of a buffer: one arrival of every warp that multiplies
//   empty   barrier of a buffer: the writing warp's
#pragma once

#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/scores.cuh"

namespace rowmax::cuda {

/// What goes with the sums.
struct OctSumsNote {
    Unit unit;
    std::int32_t stop = 0;  ///< no more units
};

template <int Rows>
struct OctSums {
    static constexpr int buffers = 4;
    Barrier full[buffers];
    Barrier empty[buffers];
    OctSumsNote notes[buffers];
    float octs[buffers][Rows / rows_of_oct];
};

/// By one thread, before the block's first barrier.
template <int Rows>
__device__ __forceinline__ void init_oct_sums(OctSums<Rows>& sums, int reading_warps) {
    for (int b = 0; b < OctSums<Rows>::buffers; ++b) {
        init(&sums.full[b], static_cast<std::uint32_t>(reading_warps));
        init(&sums.empty[b], 1);
    }
}

/// A multiplying warp's side: send() for each unit, then stop().
template <int Rows>
class OctSumsSender {
  public:
    __device__ __forceinline__ explicit OctSumsSender(OctSums<Rows>& sums) : sums_(sums) {}

    /// Sums of two octs: lane 0's of number `first`, lane 1's of the next.
    __device__ __forceinline__ void send(const Unit& unit, int first, float oct) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        wait_empty();
        if (lane < 2) sums_.octs[slot()][first + lane] = oct;
        send({unit, 0});
    }
    __device__ __forceinline__ void stop() {
        wait_empty();
        send({{0, 0, 0}, 1});
    }

  private:
    [[nodiscard]] __device__ __forceinline__ std::uint32_t slot() const { return sent_ % sums_.buffers; }
    // The first pass finds every buffer empty.
    __device__ __forceinline__ void wait_empty() const { wait(&sums_.empty[slot()], sent_ / sums_.buffers % 2 ^ 1U); }
    __device__ __forceinline__ void send(const OctSumsNote& note) {
        if (threadIdx.x == 0) sums_.notes[slot()] = note;
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&sums_.full[slot()]);
        ++sent_;
    }

    OctSums<Rows>& sums_;
    std::uint32_t sent_ = 0;
};

/// The writing warp.
template <int Rows>
__device__ __forceinline__ void write_scores_of_octs(OctSums<Rows>& sums, const Arguments& call) {
    RingPlace in;
    for (;;) {
        wait(&sums.full[in.slot], in.phase);
        const OctSumsNote note = sums.notes[in.slot];
        if (note.stop != 0) return;
        write_scores(call, note.unit, sums.octs[in.slot]);
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&sums.empty[in.slot]);
        in.advance(sums.buffers);
    }
}

}  // namespace rowmax::cuda
