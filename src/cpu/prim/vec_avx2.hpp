// AVX2, FMA and F16C: one function, one instruction. Manual entries: Intel Intrinsics Guide,
// https://www.intel.com/content/www/us/en/docs/intrinsics-guide/ (search for the _mm256 name).
#pragma once

#include <immintrin.h>

#include "cpu/kernels/tile_ops.hpp"
#include "cpu/prim/unroll.hpp"

namespace rowmax::cpu {
namespace {

struct Avx2F32 {
    using Value = float;
    using IndexValue = std::int32_t;
    using Reg = __m256;
    using Mask = __m256;
    using IndexReg = __m256i;
    static constexpr int lanes = 8;
    static constexpr int registers = 16;
    static constexpr int unrolled = 8;
    static constexpr int more_rows = 0;

    static ROWMAX_INLINE Reg zero() { return _mm256_setzero_ps(); }               // vxorps
    static ROWMAX_INLINE Reg load(const float* p) { return _mm256_loadu_ps(p); }  // vmovups
    static ROWMAX_INLINE Reg load(const std::byte* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
    static ROWMAX_INLINE void store(float* p, Reg a) { _mm256_storeu_ps(p, a); }  // vmovups
    static ROWMAX_INLINE Reg broadcast(float x) { return _mm256_set1_ps(x); }     // vbroadcastss
    static ROWMAX_INLINE Reg broadcast(const std::byte* p) {                      // vbroadcastss
        float x;
        __builtin_memcpy(&x, p, sizeof(x));
        return _mm256_set1_ps(x);
    }
    static ROWMAX_INLINE Reg fma(Reg a, Reg b, Reg c) {  // vfmadd231ps, into c
        asm("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
        return c;
    }
    static ROWMAX_INLINE Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }  // vaddps
    static ROWMAX_INLINE Reg mul(Reg a, Reg b) {                                // vmulps
        Reg c;
        asm("vmulps %2, %1, %0" : "=x"(c) : "x"(a), "x"(b));
        return c;
    }
    static ROWMAX_INLINE Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }  // vmaxps: b when equal or NaN

    /// 16 bytes from each of at(0) and at(1).
    template <class At>
    static ROWMAX_INLINE Reg load_chunks(At at) {  // vmovups, vinsertf128
        return _mm256_insertf128_ps(_mm256_castps128_ps256(chunk(at(0))), chunk(at(1)), 1);
    }
    static ROWMAX_INLINE __m128 chunk(const std::byte* p) { return _mm_loadu_ps(reinterpret_cast<const float*>(p)); }
    static ROWMAX_INLINE Reg unpack_low(Reg a, Reg b) { return _mm256_unpacklo_ps(a, b); }   // vunpcklps
    static ROWMAX_INLINE Reg unpack_high(Reg a, Reg b) { return _mm256_unpackhi_ps(a, b); }  // vunpckhps
    static ROWMAX_INLINE Reg unpack_low_pairs(Reg a, Reg b) {                                // vunpcklpd
        return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
    }
    static ROWMAX_INLINE Reg unpack_high_pairs(Reg a, Reg b) {  // vunpckhpd
        return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
    }

    static ROWMAX_INLINE Mask ordered(Reg a, Reg b) { return _mm256_cmp_ps(a, b, _CMP_ORD_Q); }          // vcmpps
    static ROWMAX_INLINE Mask greater(Reg a, Reg b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }          // vcmpps
    static ROWMAX_INLINE Mask not_less_equal(Reg a, Reg b) { return _mm256_cmp_ps(a, b, _CMP_NLE_UQ); }  // vcmpps
    static ROWMAX_INLINE Mask both(Mask a, Mask b) { return _mm256_and_ps(a, b); }                       // vandps
    static ROWMAX_INLINE bool all(Mask a) { return _mm256_movemask_ps(a) == 0xff; }                      // vmovmskps
    static ROWMAX_INLINE Reg select(Mask m, Reg yes, Reg no) { return _mm256_blendv_ps(no, yes, m); }    // vblendvps

    static ROWMAX_INLINE IndexReg load_index(const std::int32_t* p) {  // vmovdqu
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    }
    static ROWMAX_INLINE void store_index(std::int32_t* p, IndexReg a) {  // vmovdqu
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a);
    }
    static ROWMAX_INLINE IndexReg load_tokens(const std::int32_t* p) { return load_index(p); }      // vmovdqu
    static ROWMAX_INLINE IndexReg broadcast_index(std::int32_t x) { return _mm256_set1_epi32(x); }  // vpbroadcastd
    static ROWMAX_INLINE IndexReg select_index(Mask m, IndexReg yes, IndexReg no) {                 // vpblendvb
        return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(m));
    }
};

struct Avx2F64 {
    using Value = double;
    using IndexValue = std::int64_t;
    using Reg = __m256d;
    using Mask = __m256d;
    using IndexReg = __m256i;
    static constexpr int lanes = 4;
    static constexpr int registers = 16;
    static constexpr int unrolled = 8;
    static constexpr int more_rows = 0;

    static ROWMAX_INLINE Reg zero() { return _mm256_setzero_pd(); }                // vxorpd
    static ROWMAX_INLINE Reg load(const double* p) { return _mm256_loadu_pd(p); }  // vmovupd
    static ROWMAX_INLINE Reg load(const std::byte* p) { return _mm256_loadu_pd(reinterpret_cast<const double*>(p)); }
    static ROWMAX_INLINE void store(double* p, Reg a) { _mm256_storeu_pd(p, a); }  // vmovupd
    static ROWMAX_INLINE Reg broadcast(double x) { return _mm256_set1_pd(x); }     // vbroadcastsd
    static ROWMAX_INLINE Reg broadcast(const std::byte* p) {                       // vbroadcastsd
        double x;
        __builtin_memcpy(&x, p, sizeof(x));
        return _mm256_set1_pd(x);
    }
    static ROWMAX_INLINE Reg fma(Reg a, Reg b, Reg c) {  // vfmadd231pd, into c
        asm("vfmadd231pd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
        return c;
    }
    static ROWMAX_INLINE Reg add(Reg a, Reg b) { return _mm256_add_pd(a, b); }  // vaddpd
    static ROWMAX_INLINE Reg mul(Reg a, Reg b) {                                // vmulpd
        Reg c;
        asm("vmulpd %2, %1, %0" : "=x"(c) : "x"(a), "x"(b));
        return c;
    }
    static ROWMAX_INLINE Reg max(Reg a, Reg b) { return _mm256_max_pd(a, b); }  // vmaxpd: b when equal or NaN

    /// 16 bytes from each of at(0) and at(1).
    template <class At>
    static ROWMAX_INLINE Reg load_chunks(At at) {  // vmovupd, vinsertf128
        return _mm256_insertf128_pd(_mm256_castpd128_pd256(chunk(at(0))), chunk(at(1)), 1);
    }
    static ROWMAX_INLINE __m128d chunk(const std::byte* p) { return _mm_loadu_pd(reinterpret_cast<const double*>(p)); }
    static ROWMAX_INLINE Reg unpack_low(Reg a, Reg b) { return _mm256_unpacklo_pd(a, b); }   // vunpcklpd
    static ROWMAX_INLINE Reg unpack_high(Reg a, Reg b) { return _mm256_unpackhi_pd(a, b); }  // vunpckhpd

    static ROWMAX_INLINE Mask ordered(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_ORD_Q); }          // vcmppd
    static ROWMAX_INLINE Mask greater(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_GT_OQ); }          // vcmppd
    static ROWMAX_INLINE Mask not_less_equal(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_NLE_UQ); }  // vcmppd
    static ROWMAX_INLINE Mask both(Mask a, Mask b) { return _mm256_and_pd(a, b); }                       // vandpd
    static ROWMAX_INLINE bool all(Mask a) { return _mm256_movemask_pd(a) == 0xf; }                       // vmovmskpd
    static ROWMAX_INLINE Reg select(Mask m, Reg yes, Reg no) { return _mm256_blendv_pd(no, yes, m); }    // vblendvpd

    static ROWMAX_INLINE IndexReg load_index(const std::int64_t* p) {  // vmovdqu
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    }
    static ROWMAX_INLINE void store_index(std::int64_t* p, IndexReg a) {  // vmovdqu
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a);
    }
    static ROWMAX_INLINE IndexReg load_tokens(const std::int32_t* p) {  // vpmovsxdq
        return _mm256_cvtepi32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static ROWMAX_INLINE IndexReg broadcast_index(std::int32_t x) { return _mm256_set1_epi64x(x); }  // vpbroadcastq
    static ROWMAX_INLINE IndexReg select_index(Mask m, IndexReg yes, IndexReg no) {                  // vpblendvb
        return _mm256_blendv_epi8(no, yes, _mm256_castpd_si256(m));
    }
};

struct Avx2Half {
    static constexpr int step = 8;
    static ROWMAX_INLINE __m128i load(const std::byte* p) {  // vmovdqu
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    }
    /// 8 bytes from each of at(0) and at(1), as floats.
    template <class Vec, class At, class One>
    static ROWMAX_INLINE __m256 load_chunks_f16(At at, One) {  // vmovq, vmovhps, vcvtph2ps
        return _mm256_cvtph_ps(two(at(0), at(1)));
    }
    template <class Vec, class At, class One>
    static ROWMAX_INLINE __m256 load_chunks_bf16(At at, One) {  // vmovq, vmovhps, vpmovzxwd, vpslld
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(two(at(0), at(1))), 16));
    }
    static ROWMAX_INLINE __m128i two(const std::byte* a, const std::byte* b) {
        const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(a));
        return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(low), reinterpret_cast<const __m64*>(b)));
    }
    static ROWMAX_INLINE void widen_f16(const std::byte* p, float* to) {  // vcvtph2ps
        _mm256_storeu_ps(to, _mm256_cvtph_ps(load(p)));
    }
    /// At the place of float16's bits, whose exponents are 8 less; what looks like 480 is NaN.
    static ROWMAX_INLINE void widen_f8(const std::byte* p, float* to) {
        const __m128i codes = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));  // vpmovzxbw
        const __m128i sign = _mm_slli_epi16(_mm_and_si128(codes, _mm_set1_epi16(0x80)), 8);
        const __m128i magnitude = _mm_slli_epi16(_mm_and_si128(codes, _mm_set1_epi16(0x7f)), 7);
        const __m256 scaled = _mm256_cvtph_ps(_mm_or_si128(sign, magnitude));  // vcvtph2ps
        const __m256 value = _mm256_mul_ps(scaled, _mm256_set1_ps(256));
        const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), value);
        const __m256 nan = _mm256_cmp_ps(size, _mm256_set1_ps(480), _CMP_EQ_OQ);
        _mm256_storeu_ps(to, _mm256_or_ps(value, nan));  // all bits set is a NaN
    }
    static ROWMAX_INLINE void widen_bf16(const std::byte* p, float* to) {  // vpmovzxwd, vpslld
        const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(load(p)), 16);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), wide);
    }
};

/// Words of two 16-bit codes.
struct Avx2Words : Avx2F32 {
    using Floats = Avx2F32;
    static constexpr int more_rows = 1;
    static ROWMAX_INLINE Reg mul(Reg d, Reg q) {  // vpmaddwd
        __m256i c;
        asm("vpmaddwd %2, %1, %0" : "=x"(c) : "x"(d), "x"(q));
        return _mm256_castsi256_ps(c);
    }
    static ROWMAX_INLINE Reg fma(Reg d, Reg q, Reg sum) {  // vpmaddwd, vpaddd
        const Reg c = mul(d, q);
        asm("vpaddd %1, %0, %0" : "+x"(sum) : "x"(c));
        return sum;
    }
    static ROWMAX_INLINE Reg to_float(Reg sum, Reg base) {  // vpaddd, vcvtdq2ps
        return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_castps_si256(sum), _mm256_castps_si256(base)));
    }
};

/// Words of sign bits: a product counts those that differ.
struct Avx2Bits : Avx2F32 {
    using Floats = Avx2F32;
    static constexpr int more_rows = 1;
    static constexpr int unrolled = 1;  // longer bodies spill
    // Of each half byte by a table, then added up to words: vpxor, vpand, vpsrlw, vpshufb, vpaddb, vpmaddubsw, vpmaddwd
    static ROWMAX_INLINE Reg mul(Reg d, Reg q) {
        const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3,
                                                1, 2, 2, 3, 2, 3, 3, 4);
        const __m256i low = _mm256_set1_epi8(15);
        const __m256i differ = _mm256_xor_si256(_mm256_castps_si256(d), _mm256_castps_si256(q));
        const __m256i lows = _mm256_shuffle_epi8(counts, _mm256_and_si256(differ, low));
        const __m256i highs = _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16(differ, 4), low));
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_add_epi8(lows, highs), _mm256_set1_epi8(1));
        return _mm256_castsi256_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    static ROWMAX_INLINE Reg fma(Reg d, Reg q, Reg sum) {  // and vpaddd
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sum), _mm256_castps_si256(mul(d, q))));
    }
    /// base - 2 sum
    static ROWMAX_INLINE Reg to_float(Reg sum, Reg base) {  // vpslld, vpsubd, vcvtdq2ps
        const __m256i twice = _mm256_slli_epi32(_mm256_castps_si256(sum), 1);
        return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_castps_si256(base), twice));
    }
};

struct Avx2Codes {
    static constexpr std::int64_t in_word = 2;
    static constexpr std::int32_t offset = 0;
    static constexpr std::int64_t step = 16;
    static ROWMAX_INLINE void widen(const std::byte* p, std::byte* to) {  // vpmovsxbw
        const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), wide);
    }
};

}  // namespace
}  // namespace rowmax::cpu
