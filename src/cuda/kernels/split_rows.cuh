// float32 query rows against documents, to float32 accuracy: matrix instructions on parts (split_sum.cuh).
//
//   document tile  64 tokens (M)  x  query rows N (32 or 64)  ->  one maximum a column
//
//   Three warpgroups (two when N is 64) work side by side, each on documents of its own, out of a ring of its own:
//   while one splits, adds or waits, the others multiply or keep the memory busy.
//
//   warpgroup g         reads its tiles as floats, splits them in registers, multiplies them with the query rows'
//   parts,
//                       keeps the maxima of its tokens in registers; at the unit's end its warps leave them in
//                       `maxima`, and its first warp joins them, adds up, writes the scores
//   warp 4 Groups + g   fills ring g (document_ring.cuh)
//
//   shared memory: slots of the rings | query parts (query_parts.cuh; one set for each warpgroup where they work on
//   different queries) | Control
#pragma once

#include "cuda/kernels/column_maxima.cuh"
#include "cuda/kernels/document_producer.cuh"
#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/query_parts.cuh"
#include "cuda/kernels/roles.cuh"
#include "cuda/kernels/scores.cuh"
#include "cuda/kernels/shifted_rows.cuh"
#include "cuda/prim/shared.cuh"
#include "cuda/prim/wgmma_registers.cuh"

namespace rowmax::cuda {

template <int Columns, bool Indexed>
struct SplitRowsControl {
    static constexpr int groups = Columns <= 32 ? 3 : 2;
    static constexpr int buffers = 2;
    Warmth warmth;
    DocumentRing rings[groups];
    RowPlace places[groups][Columns];  ///< of the query rows; where all groups have the same, the first group's
    float octs[groups][Columns / rows_of_oct];
    Maximum<Indexed> maxima[groups][buffers][4][Columns];
};

/// As Registers, but with two warpgroups the readers need more, and the warps that fill the rings can do with less.
template <int Groups>
struct SplitRegisters {
    static constexpr int reader = Groups == 2 ? 216 : Registers<Groups>::reader;
    static constexpr int others = Groups == 2 ? 72 : Registers<Groups>::others;
    static_assert(Groups * reader + others <= registers_of_warpgroups(Groups + 1));
};

/// The sums of a tile's products, as split_sum.cuh names them.
template <int Columns>
struct SplitSums {
    static constexpr int values = Columns / 2;
    float total[values];
    float lost[values];
    float small[values];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < values; ++i) total[i] = lost[i] = 0;
    }
    __device__ __forceinline__ void add(const float (&chunk)[values]) {
#pragma unroll
        for (int i = 0; i < values; ++i) add_keeping(total[i], lost[i], chunk[i]);
    }
    __device__ __forceinline__ void end_chain() {
#pragma unroll
        for (int i = 0; i < values; ++i) lost[i] += small[i];
    }
    __device__ __forceinline__ void end() {
#pragma unroll
        for (int i = 0; i < values; ++i) total[i] += lost[i];
    }
};

template <int Columns, bool Indexed>
class SplitRowsReader {
  public:
    using Control = SplitRowsControl<Columns, Indexed>;

    __device__ __forceinline__ SplitRowsReader(Control& control, std::byte* queries, const Arguments& call, int group)
        : control_(control),
          queries_(queries),
          call_(call),
          group_(group),
          reader_(control.rings[group], call.stages) {}

    __device__ __forceinline__ void run() {
        if (!call_.own_queries) load_shared_queries();
        for (;;) {
            const Tile& tile = reader_.next();
            const TileFlags flags{uniform(tile.flags.bits)};
            if (flags.stop()) return;
            if (flags.first()) begin_unit(tile);
            if (flags.boxes() == 0) {
                reader_.leave();
            } else {
                begin_tile(tile);
                SplitSums<Columns> sums;
                multiply(sums);
                mend(sums.total);
                maxima_.fold(sums.total, keep_, token_);
            }
            if (flags.last()) finish();
        }
    }

  private:
    static constexpr int values = Columns / 2;
    static constexpr int passes = Columns / 32;

    // All warpgroups' readers, once.
    __device__ __forceinline__ void load_shared_queries() {
        constexpr int threads = 128 * Control::groups;
        unit_ = {0, 0, 0};
        load_query_parts<Columns>(call_, unit_, queries_, static_cast<int>(threadIdx.x), threads, control_.places[0]);
        fence_async_proxy();
        sync_threads(Control::groups + 1, threads);
    }

    __device__ __forceinline__ void begin_unit(const Tile& tile) {
        const bool reload = call_.own_queries && new_queries(call_.params, unit_, tile.unit);
        unit_ = tile.unit;
        seen_ = false;
        maxima_.clear();
        if (reload) load_own_queries();
    }

    __device__ __forceinline__ void load_own_queries() {
        sync_threads(1 + group_, 128);
        load_query_parts<Columns>(call_, unit_, queries_, static_cast<int>(threadIdx.x % 128), 128,
                                  control_.places[group_]);
        fence_async_proxy();
        sync_threads(1 + group_, 128);
    }

    // What the tile's first slot says, before it is given back.
    __device__ __forceinline__ void begin_tile(const Tile& tile) {
        if (!seen_) maxima_.start(first_kept(tile.keep, tile.base));
        seen_ = true;
        token_ = tile.base + 16 * warp_ + lane_ / 4;
        if (call_.d_shifted) [[unlikely]]
            early_ = byte_in_piece(reader_.rows(), 16 * warp_ + lane_ / 4, call_.params.d.row_stride);
        keep_ = tile.keep[warp_ / 2] >> (warp_ % 2 * 16) & 0xffffU;
    }

    /// The numbers of a chunk of this thread's two tokens, 8 apart.
    struct ChunkNumbersOfTwo {
        QuadNumbers token[2];
        BfloatGrid grid[2];

        __device__ __forceinline__ explicit ChunkNumbersOfTwo(const QuadNumbers& first, const QuadNumbers& second)
            : token{first, second}, grid{BfloatGrid(first.largest()), BfloatGrid(second.largest())} {}
        __device__ __forceinline__ void split_step(int step, PartRegisters<4>& to) const {
            split(grid[0], token[0].step[step], to, 0, 2);
            split(grid[1], token[1].step[step], to, 1, 3);
        }
    };

    // Nothing waits for the tensor cores that need not: while they multiply a step, the next one is split, and while
    // they add up the small products of a chunk, the sum of its large ones is taken over.
    __device__ __forceinline__ void multiply(SplitSums<Columns>& sums) {
        const int chunks = chunks_of_token(call_.params.dim);
        float chunk[values];
        PartRegisters<4> parts[steps_of_chunk];
        sums.clear();
        ChunkNumbersOfTwo numbers = take_numbers();
        numbers.split_step(0, parts[0]);
#pragma unroll 1
        for (int c = 0; c < chunks; ++c) {
            const std::uint64_t rows = operand(shared_address(queries_) + chunk_offset<Columns>(c));
            const bool begins_chain = c % chunks_of_chain == 0;
            multiply_fence();
            multiply_bfloats(chunk, parts[0].part[0], rows, false);
            multiply_small(sums.small, parts[0], rows, !begins_chain);
            close_multiply_group();
            wait_multiply_groups<1>();
            numbers.split_step(1, parts[1]);
            multiply_fence();
            multiply_bfloats(chunk, parts[1].part[0], advance(rows, 1), true);
            close_multiply_group();
            multiply_small(sums.small, parts[1], advance(rows, 1), true);
            close_multiply_group();
            const bool more = c + 1 < chunks;
            if (more) {
                reader_.wait_full();
                numbers = take_numbers();
            }
            wait_multiply_groups<1>();
            sums.add(chunk);
            if (more) numbers.split_step(0, parts[0]);
            if (!more || c % chunks_of_chain == chunks_of_chain - 1) {
                wait_multiply_groups<0>();
                sums.end_chain();
            }
        }
        sums.end();
    }

    __device__ __forceinline__ void multiply_small(float (&small)[values], const PartRegisters<4>& tokens,
                                                   std::uint64_t rows, bool add) const {
#pragma unroll
        for (int i = 0; i < small_products; ++i) {
            const std::uint64_t part = rows + static_cast<std::uint64_t>(query_part(i) * part_stride_);
            multiply_bfloats(small, tokens.part[token_part(i)], part, add || i > 0);
        }
    }

    /// Out of the slot, which is then given back.
    __device__ __forceinline__ ChunkNumbersOfTwo take_numbers() {
        const QuadNumbers first = numbers_of(0);
        const QuadNumbers second = numbers_of(8);
        reader_.leave();
        return ChunkNumbersOfTwo(first, second);
    }

    /// Of the first of this thread's two tokens, or the one that comes 8 later: pieces 2 (l % 4) and the next.
    [[nodiscard]] __device__ __forceinline__ QuadNumbers numbers_of(int later) const {
        const std::uint32_t token = reader_.token(reader_.slot(), 16 * warp_ + lane_ / 4) + later * row_bytes;
        std::uint32_t pieces[steps_of_chunk + 1][4];
#pragma unroll
        for (int s = 0; s < steps_of_chunk; ++s) load_shared(token ^ piece_of_step(s), pieces[s]);
        if (call_.d_shifted) [[unlikely]] {
            load_shared(lane_ % 4 == 3 ? ninth_of(later) : token ^ piece_of_step(steps_of_chunk),
                        pieces[steps_of_chunk]);
            later_bytes<4>(pieces, early_);
        }
        QuadNumbers numbers;
#pragma unroll
        for (int s = 0; s < steps_of_chunk; ++s) {
            numbers.step[s] = make_float4(__uint_as_float(pieces[s][0]), __uint_as_float(pieces[s][1]),
                                          __uint_as_float(pieces[s][2]), __uint_as_float(pieces[s][3]));
        }
        return numbers;
    }
    [[nodiscard]] __device__ __forceinline__ std::uint32_t piece_of_step(int s) const {
        return static_cast<std::uint32_t>(16 * (2 * (lane_ % 4) + s));
    }
    /// Of a token that was loaded from an address that is no multiple of 16 bytes.
    [[nodiscard]] __device__ __forceinline__ std::uint32_t ninth_of(int later) const {
        const int row = 16 * warp_ + lane_ / 4 + later;
        return ninths_of_ring<TokenType::f32>(Control::groups, group_, call_.stages) +
               static_cast<std::uint32_t>(reader_.slot() * ninths_bytes_of(TokenType::f32) + row * 16);
    }

    /// Computes directly what the parts cannot give.
    __device__ __forceinline__ void mend(float (&sums)[values]) {
        const bool keeps[2] = {(keep_ >> (lane_ / 4) & 1U) != 0, (keep_ >> (lane_ / 4 + 8) & 1U) != 0};
        bool wrong = false;
#pragma unroll
        for (int i = 0; i < values; ++i) wrong = wrong || (keeps[i / 2 % 2] && !is_finite(sums[i]));
        if (ballot(wrong) == 0) return;
        replace_each(sums, [&](int i, float value) {
            const bool later = i / 2 % 2 != 0;
            if (is_finite(value) || !(later ? keeps[1] : keeps[0])) return value;
            return direct(i / 4 * 8 + 2 * (lane_ % 4) + i % 2, token_ + (later ? 8 : 0));
        });
    }

    __device__ __forceinline__ float direct(int column, int token) const {
        const core::Params& params = call_.params;
        const Row row = row_of(params, call_.plan, unit_, column);
        if (!row.kept) return 0;
        const std::byte* q = row.segment.data + row.position * params.q.row_stride;
        const core::Segment document = params.d.at(document_of(params, call_.plan, unit_));
        const std::byte* d = document.data + token * params.d.row_stride;
        return direct_similarity({reinterpret_cast<const float*>(q), 1}, {reinterpret_cast<const float*>(d), 1},
                                 static_cast<int>(params.dim));
    }

    __device__ __forceinline__ void finish() {
        auto& maxima = control_.maxima[group_][buffer_];
        maxima_.leave_in(maxima[warp_]);
        // With two buffers this also says that the first warp is done with the unit before.
        sync_threads(1 + group_, 128);
        if (warp_ == 0) write_unit(maxima);
        buffer_ ^= 1;
    }

    __device__ __forceinline__ void write_unit(const Maximum<Indexed> (&maxima)[4][Columns]) {
        float* octs = control_.octs[group_];
        const RowPlace* places = control_.places[call_.own_queries ? group_ : 0];
#pragma unroll
        for (int i = 0; i < passes; ++i) {
            const int row = lane_ + 32 * i;
            Maximum<Indexed> best = maxima[0][row];
#pragma unroll
            for (int w = 1; w < 4; ++w) join(best, maxima[w][row]);
            const RowPlace place = places[row];
            if (rows_wanted<Indexed>(call_)) write_row(call_, unit_, place, best, 1.0F, seen_);
            const float sum = sum_of_oct<1>(place.adds(best.value, seen_));
            if (lane_ % rows_of_oct == 0) octs[row / rows_of_oct] = sum;
        }
        __syncwarp();
        write_scores(call_, unit_, octs);
        __syncwarp();
    }

    Control& control_;
    std::byte* queries_;
    const Arguments& call_;
    const int group_;
    /// Between the parts of the query rows, as operands count.
    const int part_stride_ = part_tiles(call_.params.dim) * Columns * row_bytes / 16;
    DocumentReaderOf<TokenType::f32> reader_;
    const int warp_ = uniform(static_cast<int>(threadIdx.x / 32 % 4));
    const int lane_ = lane_anew();
    Unit unit_{-1, -1, -1};
    int buffer_ = 0;
    int token_ = 0;
    bool seen_ = false;
    std::uint32_t keep_ = 0;
    unsigned early_ = 0;  ///< bytes by which this thread's tokens were loaded too early
    ColumnMaxima<Columns, Indexed> maxima_;
};

template <int Columns, bool Indexed>
__global__ void __launch_bounds__(tiled_threads(SplitRowsControl<Columns, Indexed>::groups), 1)
    split_rows(const __grid_constant__ TiledArguments arguments) {
    extern __shared__ std::byte memory[];
    using Control = SplitRowsControl<Columns, Indexed>;
    using Share = SplitRegisters<Control::groups>;
    constexpr auto type = TokenType::f32;
    const Arguments& call = arguments.call;
    std::byte* slots = aligned_slots(memory);
    std::byte* queries = slots + Control::groups * call.stages * slot_bytes_of(type);
    const int query_bytes = float_parts * part_tiles(call.params.dim) * Columns * row_bytes;
    auto& control = *reinterpret_cast<Control*>(queries + (call.own_queries ? Control::groups : 1) * query_bytes);
    warm_up(arguments, control.warmth);
    constexpr int most_loaders = 4 / Control::groups;
    const int loaders = filling_warps(call, most_loaders);
    const int arrivals = call.d_by_loads ? arrivals_of_copies : 1;
    if (lane_anew() == 0) {
#pragma unroll
        for (int g = 0; g < Control::groups; ++g) {
            init_ring(control.rings[g], slots + g * call.stages * slot_bytes_of(type), 4, arrivals);
        }
        fence_barrier_init();
    }
    __syncthreads();
    wait_for_earlier_kernels();
    const int warp = uniform(static_cast<int>(threadIdx.x / 32));
    if (warp < 4 * Control::groups) {
        take_registers<Share::reader>();
        const int group = warp / 4;
        if (call.own_queries) queries += group * query_bytes;
        SplitRowsReader<Columns, Indexed>(control, queries, call, group).run();
    } else {
        release_registers<Share::others>();
        const int ring = warp - 4 * Control::groups;
        const Team team{ring / Control::groups, most_loaders};
        if (team.member < loaders) {
            fill_ring<type, false, 0>(control.rings[ring % Control::groups], arguments, ring % Control::groups,
                                      Control::groups, team);
        }
    }
}

template <int Rows, bool Indexed>
KernelEntry split_rows_entry() {
    using Control = SplitRowsControl<Rows, Indexed>;
    KernelEntry entry(TokenType::f32);
    entry.function = reinterpret_cast<const void*>(&split_rows<Rows, Indexed>);
    entry.rows = entry.least_rows = Rows;
    entry.indexed = Indexed;
    entry.normalize = NormalizeUse::never;
    entry.control_bytes = static_cast<int>(sizeof(Control));
    entry.rings = Control::groups;
    entry.threads = tiled_threads(Control::groups);
    return entry;
}

}  // namespace rowmax::cuda
