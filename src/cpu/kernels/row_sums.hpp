// Rows of numbers, added up: sums stay in registers while the rows of a run go by, a few vectors of channels at a time.
//
//   sources 5 9 12   ->   row 5   [ c0 .. | c1 .. | .. ]
//                         row 9   [ c0 .. | c1 .. | .. ]     sum[v] += load(row, v): one addition a channel and source,
//                         row 12  [ c0 .. | c1 .. | .. ]     in the order of the sources, on every instruction set
//
// Included by files under inst/ only; everything here is private to them.
#pragma once

#include "cpu/kernels/row_sum_ops.hpp"
#include "cpu/kernels/rows.hpp"
#include "cpu/prim/unroll.hpp"

namespace rowmax::cpu {
namespace {

/// Rows of the sums' own type.
template <class V>
struct SameRows {
    using Vec = V;
    using Sum = typename V::Value;
    static constexpr std::int64_t size = sizeof(Sum);
    static ROWMAX_INLINE typename V::Reg some(const std::byte* at) { return V::load(at); }
    static ROWMAX_INLINE Sum one(const std::byte* at) { return read<Sum>(at); }
};

/// Rows of 16-bit numbers: `Some` widens `Step` of them through memory that never leaves L1, `One` a single one.
template <class V, int Step, void (*Some)(const std::byte*, float*), float (*One)(std::uint16_t)>
struct WidenedRows {
    using Vec = V;
    using Sum = float;
    static constexpr std::int64_t size = 2;
    static ROWMAX_INLINE typename V::Reg some(const std::byte* at) {
        float wide[V::lanes];
        if constexpr (Step <= V::lanes) {
            unroll<0, V::lanes / Step>([&](auto i) ROWMAX_FLATTEN { Some(at + i * 2 * Step, wide + i * Step); });
        } else {
            unroll<0, V::lanes>([&](auto i) ROWMAX_FLATTEN { wide[i] = one(at + 2 * i); });
        }
        return V::load(wide);
    }
    static ROWMAX_INLINE float one(const std::byte* at) { return One(read<std::uint16_t>(at)); }
};

/// `Vectors` vectors of channels from `channel` on.
template <class Rows, int Vectors>
ROWMAX_INLINE void sum_channels(const SourceRows& rows, const std::int64_t* sources, std::int64_t count,
                                std::int64_t channel, typename Rows::Sum* sum) {
    using Vec = typename Rows::Vec;
    typename Vec::Reg total[Vectors];
    unroll<0, Vectors>([&](auto v) ROWMAX_FLATTEN { total[v] = Vec::zero(); });
    for (std::int64_t i = 0; i < count; ++i) {
        const std::byte* row = rows.data + sources[i] * rows.stride + channel * Rows::size;
        unroll<0, Vectors>([&](auto v) ROWMAX_FLATTEN {
            total[v] = Vec::add(total[v], Rows::some(row + v * Vec::lanes * Rows::size));
        });
    }
    unroll<0, Vectors>([&](auto v) ROWMAX_FLATTEN { Vec::store(sum + channel + v * Vec::lanes, total[v]); });
}

/// The same of `Size` channels that fill no vector.
template <class Rows, int Size>
ROWMAX_INLINE void sum_singly(const SourceRows& rows, const std::int64_t* sources, std::int64_t count,
                              std::int64_t channel, typename Rows::Sum* sum) {
    typename Rows::Sum total[Size] = {};
    for (std::int64_t i = 0; i < count; ++i) {
        const std::byte* row = rows.data + sources[i] * rows.stride + channel * Rows::size;
        unroll<0, Size>([&](auto c) ROWMAX_FLATTEN { total[c] += Rows::one(row + c * Rows::size); });
    }
    unroll<0, Size>([&](auto c) ROWMAX_FLATTEN { sum[channel + c] = total[c]; });
}

template <class Rows>
inline void sum_run(const SourceRows& rows, const std::int64_t* sources, std::int64_t count, typename Rows::Sum* sum) {
    constexpr std::int64_t lanes = Rows::Vec::lanes;
    std::int64_t c = 0;
    for (; c + 8 * lanes <= rows.channels; c += 8 * lanes) sum_channels<Rows, 8>(rows, sources, count, c, sum);
    for (; c + 2 * lanes <= rows.channels; c += 2 * lanes) sum_channels<Rows, 2>(rows, sources, count, c, sum);
    for (; c + lanes <= rows.channels; c += lanes) sum_channels<Rows, 1>(rows, sources, count, c, sum);
    for (; c + 4 <= rows.channels; c += 4) sum_singly<Rows, 4>(rows, sources, count, c, sum);
    for (; c < rows.channels; ++c) sum_singly<Rows, 1>(rows, sources, count, c, sum);
}

template <class Rows>
inline void add_row(const std::byte* row, std::int64_t channels, typename Rows::Sum* sum) {
    using Vec = typename Rows::Vec;
    std::int64_t c = 0;
    for (; c + Vec::lanes <= channels; c += Vec::lanes) {
        Vec::store(sum + c, Vec::add(Vec::load(sum + c), Rows::some(row + c * Rows::size)));
    }
    for (; c < channels; ++c) sum[c] += Rows::one(row + c * Rows::size);
}

template <class Rows>
constexpr RowSums<typename Rows::Sum> row_sums() {
    return {&sum_run<Rows>, &add_row<Rows>};
}

template <class F32, class F64, class Half>
constexpr RowSumOps make_row_sums() {
    using F16 = WidenedRows<F32, Half::step, &Half::widen_f16, &half_value>;
    using Bf16 = WidenedRows<F32, Half::step, &Half::widen_bf16, &bfloat_value>;
    return {row_sums<F16>(), row_sums<Bf16>(), row_sums<SameRows<F32>>(), row_sums<SameRows<F64>>()};
}

}  // namespace
}  // namespace rowmax::cpu
