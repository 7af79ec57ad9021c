// Any problem on any device from compute capability 8.0: every alignment, dimension and token type.
//
//   query rows 64 (four warps of 16)  x  document tile 64 tokens, in chunks of 128 bytes of the dimension
//
// Both sides' chunks pass through two buffers in shared memory, rows 144 bytes apart (no bank conflicts): while one
// chunk is multiplied, the next is on its way. Products are added in the same order as in the kernels for Hopper.
#pragma once

#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/portable_sums.cuh"
#include "cuda/kernels/row_norm.cuh"
#include "cuda/kernels/scores.cuh"
#include "cuda/kernels/share.cuh"
#include "cuda/kernels/token_scales.cuh"
#include "cuda/prim/copy_async.cuh"

namespace rowmax::cuda {

inline constexpr int portable_rows = 64;
inline constexpr int portable_buffers = 2;

struct QueryRow {
    const std::byte* data;
    Norm norm;  ///< where tokens have scales, these are in the place of the inverse
    RowPlace place;
};

template <TokenType Type>
struct PortableMemory {
    alignas(16) std::byte q[portable_buffers][portable_rows * padded_row];
    alignas(16) std::byte d[portable_buffers][portable_tokens * padded_row];
    alignas(16) PortableParts<widened(Type)> parts;
    QueryRow rows[portable_rows];
    Norm norms[portable_tokens];
    float octs[portable_rows / rows_of_oct];
};

template <TokenType Type, bool Indexed>
class PortableKernel {
  public:
    __device__ __forceinline__ PortableKernel(PortableMemory<Type>& memory, const Arguments& call)
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
    static constexpr TokenType operand = widened(Type);
    static constexpr int chunk_elements = chunk_bytes / bytes_of(operand);
    using Sums = Products<portable_tokens, SumOf<operand>>;

    __device__ __forceinline__ void begin_unit(const Unit& unit) {
        const bool reload = unit.block != unit_.block || (query_by_item(call_.params) && unit.item != unit_.item);
        unit_ = unit;
        const std::int64_t document = document_of(call_.params, call_.plan, unit);
        document_ = call_.params.d.at(document);
        if constexpr (is_scaled(Type)) first_scale_ = call_.d_scales.steps.first(call_.params.d, document);
        seen_ = false;
        best_[0][0] = best_[0][1] = {};
        if (reload) find_rows();
    }

    __device__ __forceinline__ void find_rows() {
        rows_used_ = rows_used(call_.params, call_.plan, unit_);
        __syncthreads();
        const int r = static_cast<int>(threadIdx.x);
        if (r < portable_rows) {
            const Row row = row_of(call_.params, call_.plan, unit_, r);
            const std::byte* data = row.segment.data + row.position * call_.params.q.row_stride;
            memory_.rows[r] = {data, {}, place_of(call_, unit_, row)};
            if constexpr (is_scaled(Type)) {
                memory_.rows[r].norm.inverse = scale_of_row(call_, row);
            } else if (call_.params.normalize && row.kept) {
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
                first_ = static_cast<std::int32_t>(base) + token;
                best_[0][0].token = best_[0][1].token = first_;
            }
        }
        seen_ = true;
        if (call_.row_factors) find_factors(base, end);
        Products<portable_tokens> products[1];
        const int shift = 2 * (lane_ % 4);
        const std::uint32_t moved[2] = {keep[0] >> shift, keep[1] >> shift};
        if constexpr (std::is_same_v<Sums, Products<portable_tokens>>) {
            multiply(products[0], base, end, moved);
        } else {
            Sums sums;
            multiply(sums, base, end, moved);
#pragma unroll
            for (int i = 0; i < portable_tokens / 2; ++i) products[0].value[i] = static_cast<float>(sums.value[i]);
        }
        if (call_.row_factors) scale(products[0]);
        const auto first = static_cast<int>(base) + shift;
        const std::uint32_t full = (keep[0] == all_lanes ? 1U : 0U) | (keep[1] == all_lanes ? 2U : 0U);
        Fold<Indexed>::tile(best_, products, moved, full, first);
    }

    __device__ __forceinline__ void find_factors(std::int64_t base, std::int64_t end) {
        __syncthreads();
        const int t = static_cast<int>(threadIdx.x);
        if (t < portable_tokens && base + t < end) find_factor(base, t);
        __syncthreads();
    }

    __device__ __forceinline__ void find_factor(std::int64_t base, int t) {
        if constexpr (is_scaled(Type)) {
            const core::Scales& scales = call_.d_scales;
            memory_.norms[t].inverse = scales.data[first_scale_ + (base + t) * scales.steps.token];
        } else {
            const std::byte* data = document_.data + (base + t) * call_.params.d.row_stride;
            const Norm norm = norm_of<Type>(data, call_.params.dim, call_.d_by_16);
            // Only float32 tokens are scaled themselves: the kernels for Hopper cannot, and need the same bits.
            memory_.norms[t] = bytes_of(Type) == 4 ? norm : Norm{1, inverse_of(norm)};
        }
    }

    __device__ __forceinline__ void scale(Products<portable_tokens>& sums) const {
#pragma unroll
        for (int c = 0; c < portable_tokens / 4; ++c) {
            const float inverse = memory_.norms[2 * (lane_ % 4) + offset_of(c)].inverse;
            sums.value[c / 2 * 4 + c % 2] *= inverse;
            sums.value[c / 2 * 4 + c % 2 + 2] *= inverse;
        }
    }

    __device__ __forceinline__ void multiply(Sums& sums, std::int64_t base, std::int64_t end,
                                             const std::uint32_t (&keep)[2]) {
        PortableSum<operand> sum(call_.params.dim);
        sum.begin(sums);
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
            const std::byte* d = memory_.d[chunk % portable_buffers];
            if constexpr (Type == TokenType::f32) {
                sum.split_tokens(d, memory_.parts);
                __syncthreads();
            }
            if (warp_ * 16 < rows_used_) sum.add(sums, memory_.q[chunk % portable_buffers], d, memory_.parts);
            __syncthreads();
        }
        sum.end(sums);
        if constexpr (Type == TokenType::f32) mend(sums, base, keep);
    }

    /// Computes directly what the parts cannot give. `keep` as for Fold.
    __device__ __forceinline__ void mend(Products<portable_tokens>& sums, std::int64_t base,
                                         const std::uint32_t (&keep)[2]) {
        bool wrong = false;
        std::uint32_t kept_columns = 0;
#pragma unroll
        for (int c = 0; c < portable_tokens / 4; ++c) {
            const std::uint32_t kept_one = keep[c / 8] >> offset_of(c % 8) & 1U;
            kept_columns |= kept_one << c;
            const bool both = is_finite(sums.at(0, c)) && is_finite(sums.at(1, c));
            wrong = wrong || (kept_one != 0 && !both);
        }
        if (ballot(wrong) == 0) return;
        replace_each(sums.value, [&](int i, float value) {
            const int c = i / 4 * 2 + i % 2;
            if ((kept_columns >> c & 1U) == 0 || is_finite(value)) return value;
            return direct(warp_ * 16 + i / 2 % 2 * 8 + lane_ / 4, 2 * (lane_ % 4) + offset_of(c), base);
        });
    }

    __device__ __forceinline__ float direct(int row_number, int token, std::int64_t base) const {
        const QueryRow& row = memory_.rows[row_number];
        if (!row.place.kept()) return 0;
        const std::byte* d = document_.data + (base + token) * call_.params.d.row_stride;
        const bool scaled = call_.params.normalize;
        return direct_similarity({reinterpret_cast<const float*>(row.data), scaled ? row.norm.scale : 1},
                                 {reinterpret_cast<const float*>(d), scaled ? memory_.norms[token].scale : 1},
                                 static_cast<int>(call_.params.dim));
    }

    /// Starts to bring one chunk of both sides: 8 threads a row.
    __device__ __forceinline__ void fetch(int chunk, std::int64_t base, std::int64_t end) {
        const int piece = static_cast<int>(threadIdx.x % 8);
        const std::int64_t element = std::int64_t{chunk} * chunk_elements + piece * elements_of_piece<operand>;
        std::byte* q = memory_.q[chunk % portable_buffers] + piece * 16;
        std::byte* d = memory_.d[chunk % portable_buffers] + piece * 16;
        for (int r = static_cast<int>(threadIdx.x / 8); r < portable_rows; r += portable_threads / 8) {
            const QueryRow& row = memory_.rows[r];
            fetch_piece(q + r * padded_row, row.place.kept() ? row.data : nullptr, element, call_.q_by_16,
                        row.norm.scale);
            const std::byte* token = base + r < end ? document_.data + (base + r) * call_.params.d.row_stride : nullptr;
            fetch_piece(d + r * padded_row, token, element, call_.d_by_16, memory_.norms[r].scale);
        }
        if (chunk == 0) close_copy_group();
    }

    __device__ __forceinline__ void fetch_piece(std::byte* to, const std::byte* row, std::int64_t element, bool by_16,
                                                float scale) const {
        if constexpr (operand != Type) {
            uint4 value = make_uint4(0, 0, 0, 0);
            if (row != nullptr) value = read_widened_codes(row, element, call_.params.dim, by_16);
            *reinterpret_cast<uint4*>(to) = value;
        } else {
            fetch_stored(to, row, element, by_16, scale);
        }
    }

    __device__ __forceinline__ void fetch_stored(std::byte* to, const std::byte* row, std::int64_t element, bool by_16,
                                                 float scale) const {
        const bool scaled = call_.params.normalize && Type != TokenType::f16 && !is_scaled(Type) && scale != 1.0F;
        if (row != nullptr && by_16 && !scaled && element + elements_of_piece<Type> <= call_.params.dim) {
            return copy_16_bytes(to, row + element * bytes_of(Type));
        }
        if constexpr (bytes_of(Type) == 4) {
            if (row != nullptr && !scaled) return fetch_words(to, row, element);
        }
        uint4 value = make_uint4(0, 0, 0, 0);
        if (row != nullptr) value = read_piece<Type>(row, element, call_.params.dim, by_16);
        if constexpr (!is_scaled(Type)) {
            if (scaled && row != nullptr) {
                float values[elements_of_piece<Type>];
                widen<Type>(value, values);
#pragma unroll
                for (float& x : values) x *= scale;
                value = narrow<Type>(values);
            }
        }
        *reinterpret_cast<uint4*>(to) = value;
    }

    /// float32 tokens at any address.
    __device__ __forceinline__ void fetch_words(std::byte* to, const std::byte* row, std::int64_t element) const {
#pragma unroll
        for (int i = 0; i < 4; ++i, to += 4) {
            if (element + i < call_.params.dim) {
                copy_4_bytes(to, row + (element + i) * 4);
            } else {
                *reinterpret_cast<float*>(to) = 0;
            }
        }
    }

    __device__ __forceinline__ void finish() {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = warp_ * 16 + r * 8 + lane_ / 4;
            Maximum<Indexed> best = best_[0][r];
            join(best, exchange(best, 1));
            join(best, exchange(best, 2));
            const float factor = call_.row_factors ? memory_.rows[row].norm.inverse : 1.0F;
            if constexpr (is_scaled(Type) && Indexed) {
                if (seen_ && factor != factor) best = {not_a_number, first_};
            }
            const RowPlace place = memory_.rows[row].place;
            const float sum = sum_of_oct<4>(place.adds(best.value * factor, seen_));
            if (lane_ == 0) memory_.octs[row / rows_of_oct] = sum;
            if (rows_wanted<Indexed>(call_) && lane_ % 4 == 0) write_row(call_, unit_, place, best, factor, seen_);
        }
        __syncthreads();
        if (warp_ == 0) write_scores(call_, unit_, memory_.octs);
        __syncthreads();
    }

    PortableMemory<Type>& memory_;
    const Arguments& call_;
    int chunks_;
    const int warp_ = static_cast<int>(threadIdx.x / 32);
    const int lane_ = static_cast<int>(threadIdx.x % 32);
    Unit unit_{-1, -1, -1};
    int rows_used_ = 0;
    core::Segment document_;
    std::int64_t first_scale_ = 0;
    std::int32_t first_ = 0;  ///< the unit's first kept token
    bool seen_ = false;
    Maximum<Indexed> best_[1][2];
};

template <TokenType Type, bool Indexed>
__global__ void __launch_bounds__(portable_threads, 2) portable(const __grid_constant__ Arguments call) {
    extern __shared__ uint4 memory[];
    PortableKernel<Type, Indexed>(*reinterpret_cast<PortableMemory<Type>*>(memory), call).run();
}

template <TokenType Type, bool Indexed>
KernelEntry portable_entry() {
    KernelEntry entry(Type);
    entry.function = reinterpret_cast<const void*>(&portable<Type, Indexed>);
    entry.rows = entry.least_rows = portable_rows;
    entry.indexed = Indexed;
    entry.control_bytes = static_cast<int>(sizeof(PortableMemory<Type>));
    entry.threads = portable_threads;
    return entry;
}

}  // namespace rowmax::cuda
