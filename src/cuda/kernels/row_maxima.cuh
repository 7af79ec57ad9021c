// From warpgroups that hold query rows to the warp that adds up: maxima of finished units, in shared memory.
//
//   full    barrier of a buffer: one arrival of every warp that multiplies
//   empty   barrier of a buffer: the adding warp's
#pragma once

#include "cuda/kernels/document_ring.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/scores.cuh"

namespace rowmax::cuda {

/// What goes with the maxima of a unit.
struct UnitNote {
    Unit unit;
    std::int32_t seen;  ///< some token was kept
    std::int32_t stop;
};

template <bool Indexed, int Rows>
struct RowMaxima {
    static constexpr int buffers = 4;
    Barrier full[buffers];
    Barrier empty[buffers];
    UnitNote notes[buffers];
    float octs[Rows / rows_of_oct];
    Maximum<Indexed> rows[buffers][Rows];
    float inverse[buffers][Rows];  ///< one over the rows' norms, with normalize
};

/// By one thread, before the block's first barrier.
template <bool Indexed, int Rows>
__device__ __forceinline__ void init_maxima(RowMaxima<Indexed, Rows>& maxima, int reading_warps) {
    for (int b = 0; b < RowMaxima<Indexed, Rows>::buffers; ++b) {
        init(&maxima.full[b], static_cast<std::uint32_t>(reading_warps));
        init(&maxima.empty[b], 1);
    }
}

/// A multiplying warp's side: begin, put, send for each unit, then stop.
template <bool Indexed, int Rows>
class MaximaSender {
  public:
    __device__ __forceinline__ explicit MaximaSender(RowMaxima<Indexed, Rows>& maxima) : maxima_(maxima) {}

    __device__ __forceinline__ void begin() { wait(&maxima_.empty[out_.slot], out_.phase ^ 1U); }
    __device__ __forceinline__ void put(int row, const Maximum<Indexed>& best) { maxima_.rows[out_.slot][row] = best; }
    __device__ __forceinline__ void put_inverse(int row, float inverse) { maxima_.inverse[out_.slot][row] = inverse; }
    __device__ __forceinline__ void send(const Unit& unit, bool seen) { send({unit, seen, 0}); }
    __device__ __forceinline__ void stop() {
        begin();
        send({{0, 0, 0}, 0, 1});
    }

  private:
    __device__ __forceinline__ void send(const UnitNote& note) {
        if (threadIdx.x == 0) maxima_.notes[out_.slot] = note;
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(&maxima_.full[out_.slot]);
        out_.advance(maxima_.buffers);
    }

    RowMaxima<Indexed, Rows>& maxima_;
    RingPlace out_;
};

/// The adding warp: rows lane, lane + 32, .. of the block. With Halves, a block of up to Rows / 2 rows may have been
/// worked on twice, each time with half of the tokens.
template <bool Indexed, int Rows, bool Halves>
class RowWriter {
  public:
    __device__ __forceinline__ RowWriter(RowMaxima<Indexed, Rows>& maxima, const Arguments& call)
        : maxima_(maxima), call_(call), halves_(Halves && call.plan.rows <= Rows / 2) {}

    __device__ __forceinline__ void run() {
        RingPlace in;
        for (;;) {
            wait(&maxima_.full[in.slot], in.phase);
            const UnitNote note = maxima_.notes[in.slot];
            if (note.stop != 0) return;
            if (new_queries(call_.params, unit_, note.unit)) find_places(note.unit);
            unit_ = note.unit;
            take(in.slot, note.seen != 0);
            __syncwarp();
            if (lane_ == 0) arrive(&maxima_.empty[in.slot]);
            in.advance(maxima_.buffers);
            write_scores(call_, unit_, maxima_.octs);
            __syncwarp();
        }
    }

  private:
    static constexpr int passes = Rows / 32;

    __device__ __forceinline__ void find_places(const Unit& unit) {
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const int row = lane_ + 32 * i;
            places_[i] = !Halves || row < call_.plan.rows
                             ? place_of(call_, unit, row_of(call_.params, call_.plan, unit, row))
                             : RowPlace{};
        }
    }

    // All passes side by side: rows that are not used have places that do not count.
    __device__ __forceinline__ void take(int buffer, bool seen) {
        const auto& rows = maxima_.rows[buffer];
        float sum[passes];
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const int row = lane_ + 32 * i;
            Maximum<Indexed> best = rows[row];
            if constexpr (Halves) {
                if (i < passes / 2 && halves_) join(best, rows[row + Rows / 2]);
            }
            const float inverse = call_.params.normalize ? maxima_.inverse[buffer][row] : 1.0F;
            if (rows_wanted<Indexed>(call_)) write_row(call_, unit_, places_[i], best, inverse, seen);
            sum[i] = places_[i].adds(best.value * inverse, seen);
        }
#pragma unroll
        for (int distance = 4; distance >= 1; distance /= 2) {
#pragma unroll
            for (int i = 0; i < passes; ++i) sum[i] += exchange(sum[i], distance);
        }
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            if (lane_ % rows_of_oct == 0) maxima_.octs[lane_ / rows_of_oct + 4 * i] = sum[i];
        }
    }

    RowMaxima<Indexed, Rows>& maxima_;
    const Arguments& call_;
    const bool halves_;
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    Unit unit_{-1, -1, -1};
    RowPlace places_[passes];
};

}  // namespace rowmax::cuda
