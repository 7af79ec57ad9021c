// Any problem on any device from compute capability 8.0: every alignment, dimension and token type.
//
//   query rows 64 (four warps of 16)  x  document tile 64 tokens, in chunks of 128 bytes of the dimension
//
// Both sides' chunks pass through two buffers in shared memory, rows 144 bytes apart (no bank conflicts): while one
// chunk is multiplied, the next is on its way. Half types multiply on tensor cores, in the same order as the kernels
// for Hopper, float32 on the ordinary units.
//
// float32 products are added in chains of 8, and the sums of two chains to a total that keeps what its roundings took:
// the error stays at two units of the last place whatever the dimension and the signs.
#pragma once

#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/products.cuh"
#include "cuda/kernels/row_norm.cuh"
#include "cuda/kernels/scores.cuh"
#include "cuda/kernels/share.cuh"
#include "cuda/prim/mma.cuh"
#include "cuda/tuning.hpp"

namespace rowmax::cuda {

inline constexpr int portable_threads = 128;
inline constexpr int portable_rows = 64;
inline constexpr int portable_tokens = 64;
inline constexpr int chunk_bytes = 128;
inline constexpr int padded_row = chunk_bytes + 16;
inline constexpr int portable_buffers = 2;

struct QueryRow {
    const std::byte* data;
    Norm norm;
    bool kept;
};

struct PortableMemory {
    alignas(16) std::byte q[portable_buffers][portable_rows * padded_row];
    alignas(16) std::byte d[portable_buffers][portable_tokens * padded_row];
    QueryRow rows[portable_rows];
    Norm norms[portable_tokens];
    float octs[portable_rows / rows_of_oct];
};

/// Similarities of 64 tokens with a warp's 16 rows, chunk by chunk.
template <TokenType Type>
class Accumulator {
  public:
    __device__ __forceinline__ explicit Accumulator(std::int64_t dim)
        : chunks_of_chain_(static_cast<int>(chain_of(dim)) * 2 / chunk_bytes) {}

    __device__ __forceinline__ void begin(Products<portable_tokens>& sums) {
#pragma unroll
        for (int i = 0; i < values; ++i) sums.value[i] = 0;
    }

    __device__ __forceinline__ void add(Products<portable_tokens>& sums, const std::byte* q, const std::byte* d) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        const std::byte* a_row = q + (threadIdx.x / 32 * 16 + lane % 16) * padded_row + lane / 16 * 16;
        const std::byte* b_row = d + (lane / 16 * 8 + lane % 8) * padded_row + lane / 8 % 2 * 16;
#pragma unroll
        for (int step = 0; step < chunk_bytes / 32; ++step) {
            std::uint32_t a[4];
            load_tiles(a, a_row + step * 32);
#pragma unroll
            for (int j = 0; j < portable_tokens / 16; ++j) {
                std::uint32_t b[4];
                load_tiles(b, b_row + j * 16 * padded_row + step * 32);
                multiply_add<Type>(&sums.value[8 * j], a, b[0], b[1]);
                multiply_add<Type>(&sums.value[8 * j + 4], a, b[2], b[3]);
            }
        }
        if (++chunks_ == chunks_of_chain_) put_aside(sums);
    }

    __device__ __forceinline__ void end(Products<portable_tokens>& sums) {
        if (!aside_used_) return;
#pragma unroll
        for (int i = 0; i < values; ++i) sums.value[i] += aside_[i];
    }

  private:
    static constexpr int values = portable_tokens / 2;

    __device__ __forceinline__ void put_aside(Products<portable_tokens>& sums) {
#pragma unroll
        for (int i = 0; i < values; ++i) {
            aside_[i] = aside_used_ ? aside_[i] + sums.value[i] : sums.value[i];
            sums.value[i] = 0;
        }
        aside_used_ = true;
        chunks_ = 0;
    }

    float aside_[values];
    bool aside_used_ = false;
    int chunks_of_chain_;
    int chunks_ = 0;
};

template <>
class Accumulator<TokenType::f32> {
  public:
    __device__ __forceinline__ explicit Accumulator(std::int64_t) {}

    __device__ __forceinline__ void begin(Products<portable_tokens>& sums) {
#pragma unroll
        for (int i = 0; i < values; ++i) sums.value[i] = lost_[i] = 0;
    }

    __device__ __forceinline__ void add(Products<portable_tokens>& sums, const std::byte* q, const std::byte* d) {
#pragma unroll 1
        for (int run = 0; run < chunk_bytes / run_bytes; ++run) add_run(sums, q + run * run_bytes, d + run * run_bytes);
    }

    // What is lost next to an infinity or NaN is NaN: the plain sum is right.
    __device__ __forceinline__ void end(Products<portable_tokens>& sums) {
#pragma unroll
        for (int i = 0; i < values; ++i) {
            if (fabsf(sums.value[i]) < __builtin_huge_valf()) sums.value[i] += lost_[i];
        }
    }

  private:
    static constexpr int values = portable_tokens / 2;
    static constexpr int run_bytes = 64;

    /// sum += x, and what rounding took from it.
    __device__ __forceinline__ static void add_keeping(float& sum, float& lost, float x) {
        const float total = sum + x;
        const float part = total - sum;
        lost += (sum - (total - part)) + (x - part);
        sum = total;
    }

    __device__ __forceinline__ static float chain(const float4& a0, const float4& a1, const float4& b0,
                                                  const float4& b1) {
        float sum = a0.x * b0.x;
        sum = fmaf(a0.y, b0.y, sum);
        sum = fmaf(a0.z, b0.z, sum);
        sum = fmaf(a0.w, b0.w, sum);
        sum = fmaf(a1.x, b1.x, sum);
        sum = fmaf(a1.y, b1.y, sum);
        sum = fmaf(a1.z, b1.z, sum);
        return fmaf(a1.w, b1.w, sum);
    }

    __device__ __forceinline__ void add_run(Products<portable_tokens>& sums, const std::byte* q, const std::byte* d) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        const std::byte* a_row = q + (threadIdx.x / 32 * 16 + lane / 4) * padded_row;
        const std::byte* b_row = d + 2 * (lane % 4) * padded_row;
        float4 a[2][4];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            a[i / 4][i % 4] = *reinterpret_cast<const float4*>(a_row + i / 4 * 8 * padded_row + i % 4 * 16);
        }
#pragma unroll
        for (int c = 0; c < portable_tokens / 4; ++c) {
            float4 b[4];
#pragma unroll
            for (int k = 0; k < 4; ++k)
                b[k] = *reinterpret_cast<const float4*>(b_row + offset_of(c) * padded_row + k * 16);
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const float x = chain(a[r][0], a[r][1], b[0], b[1]) + chain(a[r][2], a[r][3], b[2], b[3]);
                add_keeping(sums.value[c / 2 * 4 + c % 2 + 2 * r], lost_[c / 2 * 4 + c % 2 + 2 * r], x);
            }
        }
    }

    float lost_[values];
};

template <TokenType Type, bool Indexed>
class PortableKernel {
  public:
    __device__ __forceinline__ PortableKernel(PortableMemory& memory, const Arguments& call)
        : memory_(memory),
          call_(call),
          chunks_(static_cast<int>((call.params.dim + chunk_elements - 1) / chunk_elements)) {}

    __device__ __forceinline__ void run() {
        const Share share = share_of(call_.params, call_.plan);
        for (std::int64_t u = share.begin; u < share.end; ++u) {
            begin_unit(unit_at(call_.plan, u));
            const TokenRange range = tokens_of_part(call_.plan, unit_.part, document_.length, portable_tokens);
            for (std::int64_t base = range.begin; base < range.end; base += portable_tokens) take_tile(base, range.end);
            finish();
        }
    }

  private:
    static constexpr int chunk_elements = chunk_bytes / bytes_of(Type);

    __device__ __forceinline__ void begin_unit(const Unit& unit) {
        const bool reload = unit.block != unit_.block || (query_by_item(call_.params) && unit.item != unit_.item);
        unit_ = unit;
        document_ = call_.params.d.at(document_of(call_.params, call_.plan, unit));
        seen_ = false;
        best_[0][0] = best_[0][1] = {};
        if (reload) find_rows();
    }

    __device__ __forceinline__ void find_rows() {
        __syncthreads();
        const int r = static_cast<int>(threadIdx.x);
        if (r < portable_rows) {
            const Row row = row_of(call_.params, call_.plan, unit_, r);
            const std::byte* data = row.segment.data + row.position * call_.params.q.row_stride;
            memory_.rows[r] = {data, {}, row.kept};
            if (call_.params.normalize && row.kept) {
                memory_.rows[r].norm = for_query<Type>(norm_of<Type>(data, call_.params.dim, call_.q_by_16));
            }
        }
        __syncthreads();
    }

    __device__ __forceinline__ std::uint32_t kept(std::int64_t token, std::int64_t end) const {
        const std::int64_t left = end - token;
        return ballot(lane_ < left && call_.params.d.keeps(document_, token + lane_));
    }

    __device__ __forceinline__ void take_tile(std::int64_t base, std::int64_t end) {
        const std::uint32_t keep[2] = {kept(base, end), kept(base + 32, end)};
        if ((keep[0] | keep[1]) == 0) return;
        if constexpr (Indexed) {
            if (!seen_) {
                const int token =
                    keep[0] != 0 ? __ffs(static_cast<int>(keep[0])) - 1 : __ffs(static_cast<int>(keep[1])) + 31;
                best_[0][0].token = best_[0][1].token = static_cast<std::int32_t>(base) + token;
            }
        }
        seen_ = true;
        if (call_.params.normalize) find_norms(base, end);
        Products<portable_tokens> sums[1];
        multiply(sums[0], base, end);
        if (call_.params.normalize) scale(sums[0]);
        const int shift = 2 * (lane_ % 4);
        const std::uint32_t moved[2] = {keep[0] >> shift, keep[1] >> shift};
        const auto first = static_cast<int>(base) + shift;
        const std::uint32_t full = (keep[0] == all_lanes ? 1U : 0U) | (keep[1] == all_lanes ? 2U : 0U);
        Fold<Indexed>::tile(best_, sums, moved, full, first);
    }

    __device__ __forceinline__ void find_norms(std::int64_t base, std::int64_t end) {
        __syncthreads();
        const int t = static_cast<int>(threadIdx.x);
        if (t < portable_tokens && base + t < end) {
            const std::byte* data = document_.data + (base + t) * call_.params.d.row_stride;
            const Norm norm = norm_of<Type>(data, call_.params.dim, call_.d_by_16);
            // Only float32 tokens are scaled themselves: the kernels for Hopper cannot, and need the same bits.
            memory_.norms[t] = Type == TokenType::f32 ? norm : Norm{1, inverse_of(norm)};
        }
        __syncthreads();
    }

    __device__ __forceinline__ void scale(Products<portable_tokens>& sums) const {
#pragma unroll
        for (int c = 0; c < portable_tokens / 4; ++c) {
            const float inverse = memory_.norms[2 * (lane_ % 4) + offset_of(c)].inverse;
            sums.value[c / 2 * 4 + c % 2] *= inverse;
            sums.value[c / 2 * 4 + c % 2 + 2] *= inverse;
        }
    }

    __device__ __forceinline__ void multiply(Products<portable_tokens>& sums, std::int64_t base, std::int64_t end) {
        Accumulator<Type> accumulator(call_.params.dim);
        accumulator.begin(sums);
        fetch(0, base, end);
        for (int chunk = 0; chunk < chunks_; ++chunk) {
            if (chunk + 1 < chunks_) fetch(chunk + 1, base, end);
            close_copy_group();
            if (chunk + 1 < chunks_) {
                wait_copy_groups<1>();
            } else {
                wait_copy_groups<0>();
            }
            __syncthreads();
            accumulator.add(sums, memory_.q[chunk % portable_buffers], memory_.d[chunk % portable_buffers]);
            __syncthreads();
        }
        accumulator.end(sums);
    }

    /// Starts to bring one chunk of both sides: 8 threads a row.
    __device__ __forceinline__ void fetch(int chunk, std::int64_t base, std::int64_t end) {
        const int piece = static_cast<int>(threadIdx.x % 8);
        const std::int64_t element = std::int64_t{chunk} * chunk_elements + piece * elements_of_piece<Type>;
        std::byte* q = memory_.q[chunk % portable_buffers] + piece * 16;
        std::byte* d = memory_.d[chunk % portable_buffers] + piece * 16;
        for (int r = static_cast<int>(threadIdx.x / 8); r < portable_rows; r += portable_threads / 8) {
            const QueryRow& row = memory_.rows[r];
            fetch_piece(q + r * padded_row, row.kept ? row.data : nullptr, element, call_.q_by_16, row.norm.scale);
            const std::byte* token = base + r < end ? document_.data + (base + r) * call_.params.d.row_stride : nullptr;
            fetch_piece(d + r * padded_row, token, element, call_.d_by_16, memory_.norms[r].scale);
        }
        if (chunk == 0) close_copy_group();
    }

    __device__ __forceinline__ void fetch_piece(std::byte* to, const std::byte* row, std::int64_t element, bool by_16,
                                                float scale) const {
        const bool scaled = call_.params.normalize && Type != TokenType::f16 && scale != 1.0F;
        if (row != nullptr && by_16 && !scaled && element + elements_of_piece<Type> <= call_.params.dim) {
            return copy_16_bytes(to, row + element * bytes_of(Type));
        }
        uint4 value = make_uint4(0, 0, 0, 0);
        if (row != nullptr) value = read_piece<Type>(row, element, call_.params.dim, by_16);
        if (scaled && row != nullptr) {
            float values[elements_of_piece<Type>];
            widen<Type>(value, values);
#pragma unroll
            for (float& x : values) x *= scale;
            value = narrow<Type>(values);
        }
        *reinterpret_cast<uint4*>(to) = value;
    }

    __device__ __forceinline__ void finish() {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = warp_ * 16 + r * 8 + lane_ / 4;
            Maximum<Indexed> best = best_[0][r];
            join(best, exchange(best, 1));
            join(best, exchange(best, 2));
            if (call_.params.normalize) best.value *= memory_.rows[row].norm.inverse;
            const float sum = sum_of_oct<4>(memory_.rows[row].kept && seen_ ? best.value : 0.0F);
            if (lane_ == 0) memory_.octs[row / rows_of_oct] = sum;
            if (rows_wanted<Indexed>(call_) && lane_ % 4 == 0) {
                write_row(call_, unit_, place_of(call_, unit_, row_of(call_.params, call_.plan, unit_, row)), best,
                          seen_);
            }
        }
        __syncthreads();
        if (warp_ == 0) write_scores(call_, unit_, memory_.octs);
        __syncthreads();
    }

    PortableMemory& memory_;
    const Arguments& call_;
    int chunks_;
    const int warp_ = static_cast<int>(threadIdx.x / 32);
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    Unit unit_{-1, -1, -1};
    core::Segment document_;
    bool seen_ = false;
    Maximum<Indexed> best_[1][2];
};

template <TokenType Type, bool Indexed>
__global__ void __launch_bounds__(portable_threads, 2) portable(const __grid_constant__ Arguments call) {
    __shared__ alignas(16) std::byte memory[sizeof(PortableMemory)];
    PortableKernel<Type, Indexed>(*reinterpret_cast<PortableMemory*>(memory), call).run();
}

template <TokenType Type, bool Indexed>
KernelEntry portable_entry() {
    KernelEntry entry;
    entry.function = reinterpret_cast<const void*>(&portable<Type, Indexed>);
    entry.rows = entry.least_rows = portable_rows;
    entry.indexed = Indexed;
    entry.threads = portable_threads;
    return entry;
}

}  // namespace rowmax::cuda
