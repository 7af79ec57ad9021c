// Vectors of any width in plain C++: the rows that run everywhere, and the ones that exercise wide tiles on narrow
// machines. Included by one file under inst/, inside its anonymous namespace.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {
namespace {

template <class T>
T load_scalar(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
}

template <class T, int Lanes>
struct ScalarVec {
    using Value = T;
    using IndexValue = Index<T>;
    struct Reg {
        T v[Lanes];
    };
    struct Mask {
        bool v[Lanes];
    };
    struct IndexReg {
        IndexValue v[Lanes];
    };
    static constexpr int lanes = Lanes;
    static constexpr int registers = Lanes * sizeof(T) >= 64 ? 32 : 16;  ///< of a machine with such vectors
    static constexpr int unrolled = 1;
    static constexpr int more_rows = 0;  ///< of a panel, behind its steps

    // One function an operation: inlined a thousand times, they would compile for half a minute.
    template <class R, class F>
    static __attribute__((noinline)) R each(F f) {
        R r;
        for (int i = 0; i < Lanes; ++i) r.v[i] = f(i);
        return r;
    }
    static Reg zero() {
        return each<Reg>([](int) { return T(0); });
    }
    static Reg load(const T* p) {
        return each<Reg>([=](int i) { return p[i]; });
    }
    static Reg load(const std::byte* p) {
        return each<Reg>([=](int i) { return load_scalar<T>(p + i * std::ptrdiff_t{sizeof(T)}); });
    }
    static void store(T* p, Reg a) { std::memcpy(p, a.v, sizeof(a.v)); }
    static Reg broadcast(const std::byte* p) { return broadcast(load_scalar<T>(p)); }
    static Reg broadcast(T x) {
        return each<Reg>([=](int) { return x; });
    }
    static Reg fma(Reg a, Reg b, Reg c) {
        return each<Reg>([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
    }
    static Reg add(Reg a, Reg b) {
        return each<Reg>([&](int i) { return a.v[i] + b.v[i]; });
    }
    static Reg mul(Reg a, Reg b) {
        return each<Reg>([&](int i) { return a.v[i] * b.v[i]; });
    }
    // As maxps: the second operand when they are equal or one is NaN.
    static Reg max(Reg a, Reg b) {
        return each<Reg>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
    }

    // 16 bytes at a time, as the unpack instructions work.
    static constexpr int chunk = 16 / int{sizeof(T)};
    template <class At>
    static Reg load_chunks(At at) {
        Reg all;
        for (int i = 0; i < Lanes / chunk; ++i) std::memcpy(all.v + i * chunk, at(i), 16);
        return all;
    }
    static Reg unpack_low(Reg a, Reg b) { return unpack<1>(a, b, 0); }
    static Reg unpack_high(Reg a, Reg b) { return unpack<1>(a, b, chunk / 2); }
    static Reg unpack_low_pairs(Reg a, Reg b) { return unpack<2>(a, b, 0); }
    static Reg unpack_high_pairs(Reg a, Reg b) { return unpack<2>(a, b, chunk / 2); }
    /// Takes `Size` elements of a and of b in turn, from `half` of every chunk on.
    template <int Size>
    static Reg unpack(Reg a, Reg b, int half) {
        return each<Reg>([&](int i) {
            const int from = i / chunk * chunk + half + i % chunk / (2 * Size) * Size + i % Size;
            return i % (2 * Size) < Size ? a.v[from] : b.v[from];
        });
    }

    static Mask ordered(Reg a, Reg b) {
        return each<Mask>([&](int i) { return a.v[i] == a.v[i] && b.v[i] == b.v[i]; });
    }
    static Mask greater(Reg a, Reg b) {
        return each<Mask>([&](int i) { return a.v[i] > b.v[i]; });
    }
    static Mask not_less_equal(Reg a, Reg b) {
        return each<Mask>([&](int i) { return !(a.v[i] <= b.v[i]); });
    }
    static Mask both(Mask a, Mask b) {
        return each<Mask>([&](int i) { return a.v[i] && b.v[i]; });
    }
    static bool all(Mask a) {
        bool yes = true;
        for (const bool x : a.v) yes = yes && x;
        return yes;
    }
    static Reg select(Mask m, Reg yes, Reg no) {
        return each<Reg>([&](int i) { return m.v[i] ? yes.v[i] : no.v[i]; });
    }

    static IndexReg load_index(const IndexValue* p) {
        return each<IndexReg>([=](int i) { return p[i]; });
    }
    static void store_index(IndexValue* p, IndexReg a) { std::memcpy(p, a.v, sizeof(a.v)); }
    static IndexReg load_tokens(const std::int32_t* p) {
        return each<IndexReg>([=](int i) { return IndexValue{p[i]}; });
    }
    static IndexReg broadcast_index(std::int32_t x) {
        return each<IndexReg>([=](int) { return IndexValue{x}; });
    }
    static IndexReg select_index(Mask m, IndexReg yes, IndexReg no) {
        return each<IndexReg>([&](int i) { return m.v[i] ? yes.v[i] : no.v[i]; });
    }
};

/// No conversion of several at once: rows.hpp converts one by one.
struct ScalarHalf {
    static constexpr int step = INT32_MAX;
    static void widen_f16(const std::byte*, float*) {}
    static void widen_bf16(const std::byte*, float*) {}
    static void widen_f8(const std::byte*, float*) {}
};

/// Lanes of words that hold codes (CodeOps): moved as floats, whose bits nothing here changes, and multiplied as
/// integers. InWord 2: 16-bit codes; 4: a document's unsigned bytes, raised by 128, with a query's signed ones.
template <int Lanes, int InWord>
struct ScalarWords : ScalarVec<float, Lanes> {
    using Base = ScalarVec<float, Lanes>;
    using Floats = Base;
    using Reg = typename Base::Reg;
    static constexpr int more_rows = 1;
    static std::int32_t bits(float word) {
        std::int32_t integer;
        std::memcpy(&integer, &word, sizeof(integer));
        return integer;
    }
    static float word(std::int32_t integer) {
        float bits;
        std::memcpy(&bits, &integer, sizeof(bits));
        return bits;
    }
    static std::int32_t product(std::int32_t d, std::int32_t q) {
        std::int32_t sum = 0;
        for (int shift = 0; shift < 32; shift += 32 / InWord) {
            const std::int32_t a = d >> shift;
            const std::int32_t b = q >> shift;
            sum += InWord == 2 ? std::int16_t(a) * std::int16_t(b) : std::uint8_t(a) * std::int8_t(b);
        }
        return sum;
    }
    static Reg mul(Reg d, Reg q) {
        return Base::template each<Reg>([&](int i) { return word(product(bits(d.v[i]), bits(q.v[i]))); });
    }
    static Reg fma(Reg d, Reg q, Reg sum) {
        return Base::template each<Reg>(
            [&](int i) { return word(bits(sum.v[i]) + product(bits(d.v[i]), bits(q.v[i]))); });
    }
    static Reg to_float(Reg sum, Reg base) {
        return Base::template each<Reg>([&](int i) { return static_cast<float>(bits(sum.v[i]) + bits(base.v[i])); });
    }
};

/// Sign bits: a product counts the bits that differ.
template <int Lanes>
struct ScalarBits : ScalarWords<Lanes, 2> {
    using Base = ScalarWords<Lanes, 2>;
    using Reg = typename Base::Reg;
    static std::int32_t differ(float d, float q) { return __builtin_popcount(Base::bits(d) ^ Base::bits(q)); }
    static Reg mul(Reg d, Reg q) {
        return Base::template each<Reg>([&](int i) { return Base::word(differ(d.v[i], q.v[i])); });
    }
    static Reg fma(Reg d, Reg q, Reg sum) {
        return Base::template each<Reg>(
            [&](int i) { return Base::word(Base::bits(sum.v[i]) + differ(d.v[i], q.v[i])); });
    }
    static Reg to_float(Reg sum, Reg base) {
        return Base::template each<Reg>(
            [&](int i) { return static_cast<float>(Base::bits(base.v[i]) - 2 * Base::bits(sum.v[i])); });
    }
};

template <int InWord>
struct ScalarCodes {
    static constexpr std::int64_t in_word = InWord;
    static constexpr std::int32_t offset = InWord == 4 ? 128 : 0;
    static constexpr std::int64_t step = INT64_MAX / 2;  ///< no several at once
    static void widen(const std::byte*, std::byte*) {}
};

}  // namespace
}  // namespace rowmax::cpu
