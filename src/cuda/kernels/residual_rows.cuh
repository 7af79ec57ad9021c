// Residual documents on tensor cores: a token is centroid + weights, and both are multiplied as they are looked up.
//
//   warp: 16 tokens of a document of its own  x  8 Tiles query rows, 64 dimensions a step
//
//   centroids   rows of float16 in L2 (residual_table.cuh), loaded straight into matrix registers, a step ahead
//   weights     packed bytes, loaded a step ahead; float16 looked up in registers
//   queries     shared memory, the same for all warps
//
// (With 128 dimensions and float16 tables, the usual case, centroids and bytes come through shared memory instead, a
// tile ahead: residual_ring.cuh.)
//
// Four lanes share a token, 16 neighbouring dimensions each. Nothing is decoded to memory and nothing rounded: float16
// products are exact, and what float16 does not hold of a weight, a centroid or a query is a product of its own, left
// out where it is zero for all. Sums of 128 dimensions are put aside, so that tensor cores, which round down, add few
// numbers in a row.
//
// The norm of a token is |c|^2 + 2 <c, w> + |w|^2: the first is looked up with the centroid, the second is the diagonal
// of tokens x tokens, which the registers at hand multiply as they are, the third counts buckets or is another
// diagonal. Tokens whose sum is not certain, since centroid and weights cancel each other, and similarities that are
// not finite are computed directly.
#pragma once

#include "cuda/kernels/maximum.cuh"
#include "cuda/kernels/residual_kernels.hpp"
#include "cuda/kernels/residual_products.cuh"
#include "cuda/kernels/residual_queries.cuh"
#include "cuda/kernels/residual_ring.cuh"
#include "cuda/kernels/share.cuh"

namespace rowmax::cuda {

template <class Shape, bool = ringed<Shape>>
struct ResidualReaders {
    using Reader = ResidualRingReader<Shape>;
};
template <class Shape>
struct ResidualReaders<Shape, false> {
    using Reader = ResidualReader<Shape::bits, Shape::dim>;
};

template <class Shape, bool = ringed<Shape>>
struct ResidualRings {
    alignas(128) std::byte of_warp[residual_warps][ResidualRing<Shape>::bytes];
};
template <class Shape>
struct ResidualRings<Shape, false> {};

template <class Shape>
struct ResidualMemory {
    static constexpr int rows = 8 * Shape::tiles;
    [[no_unique_address]] ResidualRings<Shape> rings;
    std::uint32_t weights[Shape::bits == 8 ? 256 : 1];
    ResidualQueryRow row[rows];
    float octs[residual_warps][Shape::tiles];
    std::int64_t first;  ///< unit of a block of query rows, and behind its last
    std::int64_t end;
    std::int64_t last;                  ///< behind the last unit of all
    int next;                           ///< units of the block that were taken
    alignas(16) std::byte queries[16];  ///< [parts][rows], as many as there are
};

template <class Shape>
class ResidualKernel {
    static constexpr int Bits = Shape::bits;
    static constexpr int Tiles = Shape::tiles;
    static constexpr int Dim = Shape::dim;
    static constexpr bool Long = Shape::is_long;
    using Best = Maximum<Shape::indexed>;
    using Reader = typename ResidualReaders<Shape>::Reader;

  public:
    using Memory = ResidualMemory<Shape>;

    __device__ __forceinline__ ResidualKernel(Memory& memory, const ResidualArguments& call)
        : memory_(memory),
          call_(call),
          params_(call.call.params),
          products_(call, memory.weights, memory.queries),
          chunks_(static_cast<int>(residual_row(params_.dim) / residual_chunk)),
          indexed_(rows_wanted<Shape::indexed>(call.call)) {}

    /// Where a thread block is in its share lies in shared memory: registers are needed elsewhere.
    __device__ __forceinline__ void run() {
        if (threadIdx.x < 32) {
            const Share share = share_of(params_, call_.call.plan);
            if (threadIdx.x == 0) memory_.first = share.begin, memory_.last = share.end;
        }
        __syncthreads();
        while (memory_.first < memory_.last) {
            const Unit unit = unit_at(call_.call.plan, memory_.first);
            load_queries(unit);
            if (threadIdx.x == 0) memory_.next = 0, memory_.end = end_of_block(unit);
            __syncthreads();
            odd_queries_ = ballot(lane_ < Memory::rows && !memory_.row[lane_ % Memory::rows].finite) != 0;
            for (std::int64_t u = take(); u < volatile_end(); u = take()) score(unit_at(call_.call.plan, u));
            __syncthreads();
            if (threadIdx.x == 0) memory_.first = memory_.end;
            __syncthreads();
        }
    }

  private:
    /// Of the units that have the same query rows.
    [[nodiscard]] __device__ __forceinline__ std::int64_t end_of_block(const Unit& unit) const {
        const Plan& plan = call_.call.plan;
        if (query_by_item(params_)) return memory_.first + 1;
        const std::int64_t end = (unit.block + 1) * (std::int64_t{plan.width} * plan.parts);
        return end < memory_.last ? end : memory_.last;
    }
    [[nodiscard]] __device__ __forceinline__ std::int64_t volatile_end() const {
        return *static_cast<const volatile std::int64_t*>(&memory_.end);
    }

    __device__ __forceinline__ std::int64_t take() {
        int mine = 0;
        if (lane_ == 0) mine = atomicAdd(&memory_.next, 1);
        return *static_cast<const volatile std::int64_t*>(&memory_.first) + from_lane(mine, 0);
    }

    __device__ __forceinline__ void load_queries(const Unit& unit) {
        const ResidualQueryLoader<Bits> loader(call_, memory_.queries, Memory::rows);
        constexpr int together = Tiles >= 2 ? 4 : 2;
#pragma unroll 1
        for (int r = warp_; r < Memory::rows; r += together * residual_warps) {
            loader.template load<together>(unit, r, residual_warps, memory_.row);
        }
    }

    __device__ __forceinline__ void score(const Unit& unit) {
        const std::int64_t item = document_of(params_, call_.call.plan, unit);
        document_ = params_.d.at(item);
        const TokenRange range = tokens_of_part(call_.call.plan, unit.part, document_.length, residual_tile);
#pragma unroll
        for (int i = 0; i < 2 * Tiles; ++i) best_[i] = {};
        seen_ = careful_ = false;
        const auto begin = static_cast<int>(range.begin);
        const auto end = static_cast<int>(range.end);
        if (begin < end) {
            if constexpr (ringed<Shape>) {
                scan_ring({call_, item, end, memory_.rings.of_warp[warp_]}, begin);
            } else {
                scan({call_, item, end}, begin);
            }
        }
        finish(unit);
    }

    /// A tile is asked for while the one before it is multiplied.
    __device__ __forceinline__ void scan_ring(Reader reader, int begin) {
        reader.find(begin);
        reader.ask(begin, 0);
        int slot = 0;
        for (int base = begin; base < reader.end(); base += residual_tile, slot ^= 1) {
            reader.ask(base + residual_tile, slot ^ 1);
            wait_copy_groups<1>();
            __syncwarp();
            products_.clear();
            const ResidualStage<Bits> first = reader.stage(slot, 0);
            products_.multiply(first, 0);
            const ResidualStage<Bits> second = reader.stage(slot, 1);
            products_.multiply(second, 1);
            products_.count(first, second);
            const float2 rest[2] = {reader.rest(0), reader.rest(1)};
            fold(reader, rest, base);
            __syncwarp();
        }
    }

    /// Codes come a tile ahead of their tokens, centroids and bytes a chunk.
    __device__ __forceinline__ void scan(const Reader& reader, int begin) {
        ResidualPlace place = reader.find(begin);
        ResidualStage<Bits> stage = reader.fetch(place, 0);
        ResidualPlace next = reader.find(begin + residual_tile);
        for (; place.base < reader.end(); place = next, next = reader.find(next.base + residual_tile)) {
            const float2 rest[2] = {__ldg(call_.table.rest + place.code[0]), __ldg(call_.table.rest + place.code[1])};
            products_.clear();
            multiply_all(reader, place, next, stage);
            fold(reader, rest, place.base);
        }
    }

    __device__ __forceinline__ void multiply_all(const Reader& reader, const ResidualPlace& place,
                                                 const ResidualPlace& next, ResidualStage<Bits>& stage) {
        for (int chunk = 0; chunk < chunks_; ++chunk) {
            ResidualStage<Bits> ahead = stage;
            if (chunk + 1 < chunks_) {
                ahead = reader.fetch(place, chunk + 1);
            } else if (next.base < reader.end()) {
                ahead = reader.fetch(next, 0);
            }
            products_.multiply(stage, chunk);
            if (call_.table.parts == 2) products_.multiply_second(reader.second(place, chunk, stage), chunk);
            if constexpr (Long) end_chain(chunk);
            stage = ahead;
        }
    }

    __device__ __forceinline__ void end_chain(int chunk) {
        const int of_chain = chunk % chunks_of_residual_chain;
        if (of_chain + 1 < chunks_of_residual_chain && chunk + 1 < chunks_) return;
        const int end = (chunk + 1) * residual_chunk;
        const auto dim = static_cast<int>(params_.dim);
        products_.put_aside((end < dim ? end : dim) - (chunk - of_chain) * residual_chunk);
    }

    /// Similarities of a tile, each times a power of two that belongs to its query row.
    __device__ __forceinline__ void fold(const Reader& reader, const float2 (&rest)[2], int base) {
        const ResidualFactors factors[2] = {products_.factors_of(rest[0], 0), products_.factors_of(rest[1], 1)};
        const int token[2] = {base + lane_ / 4, base + lane_ / 4 + 8};
        bool keep[2] = {true, true};
        const bool whole = base + residual_tile <= reader.end() && (Dim != 0 || params_.d.mask.data == nullptr);
        if (!whole) {
            for (int r = 0; r < 2; ++r)
                keep[r] = token[r] < reader.end() && (Dim != 0 || params_.d.keeps(document_, token[r]));
        }
        seen_ = seen_ || keep[0] || keep[1];
        float similarity[4 * Tiles];
        float odd = odd_queries_ ? not_a_number : 0.0F;  // NaN where something is not finite
#pragma unroll
        for (int at = 0; at < 4 * Tiles; ++at) {
            const ResidualFactors& f = factors[at / 2 % 2];
            similarity[at] = fmaf(products_.of_centroid(at), f.centroid, products_.of_weights(at) * f.weights);
            if constexpr (!ringed<Shape>) odd = fmaf(similarity[at], 0.0F, odd);
        }
        const bool doubtful = !(odd == 0 && factors[0].certain && factors[1].certain);
        if (ballot(doubtful) != 0) {
            mend(reader, similarity, factors, keep, base);
            begin_to_be_careful();
        }
        if (careful_) return take_carefully(similarity, keep, token);
        if (!whole) {
#pragma unroll
            for (int at = 0; at < 4 * Tiles; ++at) {
                if (!keep[at / 2 % 2]) similarity[at] = minus_infinity;
            }
        }
        take_finite(similarity, token);
    }

    /// The two tokens of each column: the first of equals wins.
    __device__ __forceinline__ void take_finite(const float (&similarity)[4 * Tiles], const int (&token)[2]) {
#pragma unroll
        for (int i = 0; i < 2 * Tiles; ++i) {
            const float first = similarity[i / 2 * 4 + i % 2];
            const float second = similarity[i / 2 * 4 + i % 2 + 2];
            const float better = fmaxf(first, second);
            if constexpr (Shape::indexed) {
                if (indexed_ && better > best_[i].value) best_[i].token = second > first ? token[1] : token[0];
            }
            best_[i].value = fmaxf(best_[i].value, better);
        }
    }

    /// Maxima so far are finite, and without tokens where nobody asked for them.
    __device__ __forceinline__ void begin_to_be_careful() {
        careful_ = true;
        if constexpr (Shape::indexed) {
#pragma unroll
            for (Best& best : best_) {
                if (best.token < 0 && best.value > minus_infinity) best.token = 0;
            }
        }
    }

    /// With NaN and infinities among them.
    __device__ __forceinline__ void take_carefully(const float (&similarity)[4 * Tiles], const bool (&keep)[2],
                                                   const int (&token)[2]) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
#pragma unroll
            for (int i = 0; i < 2 * Tiles; ++i) {
                const float s = similarity[i / 2 * 4 + 2 * r + i % 2];
                Best& best = best_[i];
                if constexpr (Shape::indexed) {
                    const bool wins = best.token < 0 || (!(s <= best.value) && best.value == best.value);
                    if (keep[r] && wins) best = {s, token[r]};
                } else {
                    if (keep[r]) best.value = max_or_nan(best.value, s);
                }
            }
        }
    }

    /// Computes directly what is not finite, and what uncertain tokens have.
    __device__ __forceinline__ void mend(const Reader& reader, float (&similarity)[4 * Tiles],
                                         const ResidualFactors (&factors)[2], const bool (&keep)[2], int base) const {
        std::uint32_t wrong = 0;
#pragma unroll
        for (int at = 0; at < 4 * Tiles; ++at) {
            const bool good = fabsf(similarity[at]) < __builtin_huge_valf() && factors[at / 2 % 2].certain;
            if (keep[at / 2 % 2] && !good) wrong |= 1U << at;
        }
#pragma unroll 1
        for (int at = 0; at < 4 * Tiles; ++at) {
            if ((wrong >> at & 1U) == 0) continue;
            const ResidualQueryRow& row = memory_.row[at / 4 * 8 + lane_ % 4 * 2 + at % 2];
            float value = 0;
            if (row.place.kept()) {
                const ResidualToken token = reader.token(base + lane_ / 4 + 8 * (at / 2 % 2));
                value = direct_residual(call_, row.data, token) / row.inverse_scale;
            }
#pragma unroll
            for (int i = 0; i < 4 * Tiles; ++i) similarity[i] = i == at ? value : similarity[i];
        }
    }

    __device__ __forceinline__ void finish(const Unit& unit) {
        const bool seen = ballot(seen_) != 0;
#pragma unroll
        for (int i = 0; i < 2 * Tiles; ++i) {
            if constexpr (Shape::indexed) {
                if (!indexed_ && seen_) best_[i].token = 0;
            }
            join(best_[i], exchange(best_[i], 4));
            join(best_[i], exchange(best_[i], 8));
            join(best_[i], exchange(best_[i], 16));
        }
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) {
            float sum = 0;
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const ResidualQueryRow& row = memory_.row[tile * 8 + lane_ % 4 * 2 + h];
                Best best = best_[2 * tile + h];
                best.value = best.value * row.inverse_scale - call_.surplus;
                if (indexed_ && lane_ / 4 == (2 * tile + h) % 8) {
                    write_row(call_.call, unit, row.place, best, row.inverse_norm, seen);
                }
                // As sum_of_oct: distances 4, 2, 1.
                float value = row.place.adds(best.value * row.inverse_norm, seen);
                value += exchange(value, 2);
                value += exchange(value, 1);
                sum += value;
            }
            if (lane_ == 0) memory_.octs[warp_][tile] = sum;
        }
        __syncwarp();
        write_scores(call_.call, unit, memory_.octs[warp_]);
        __syncwarp();
    }

    Memory& memory_;
    const ResidualArguments& call_;
    const core::Params& params_;
    const int warp_ = static_cast<int>(threadIdx.x / 32);
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    ResidualProducts<Shape> products_;
    int chunks_;
    core::Segment document_;
    const bool indexed_;
    bool seen_ = false;     ///< this lane saw a token that is kept
    bool careful_ = false;  ///< some similarity of the document was not finite, or not certain
    bool odd_queries_ = false;
    Best best_[2 * Tiles];
};

// Before Hopper there is no shared memory for four thread blocks, and need not be registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr int most_residual_blocks = 3;
#else
inline constexpr int most_residual_blocks = 4;
#endif

template <class Shape>
__global__ void __launch_bounds__(32 * residual_warps,
                                  Shape::blocks < most_residual_blocks ? Shape::blocks : most_residual_blocks)
    residual_rows(const __grid_constant__ ResidualArguments call) {
    extern __shared__ uint4 memory[];
    ResidualKernel<Shape>(*reinterpret_cast<ResidualMemory<Shape>*>(memory), call).run();
}

template <class Shape>
ResidualEntry residual_entry() {
    using Memory = ResidualMemory<Shape>;
    return {reinterpret_cast<const void*>(&residual_rows<Shape>), Memory::rows, static_cast<int>(sizeof(Memory)),
            Shape::blocks};
}

template <int Bits>
ResidualEntries make_residual_entries() {
    ResidualEntries entries;
    entries.few = residual_entry<AnyResidual<Bits, 1, true>>();
    entries.many = residual_entry<AnyResidual<Bits, 4, false>>();
    entries.wide = residual_entry<AnyResidual<Bits, 2, true>>();
    entries.halves = residual_entry<HalfResidual<Bits, 0, true, true>>();
    entries.halves_plain = residual_entry<HalfResidual<Bits, 1, true, false>>();
    if constexpr (Bits == 1) entries.signs_plain = residual_entry<HalfResidual<Bits, 1, false, false>>();
    return entries;
}

}  // namespace rowmax::cuda
