// AVX-512 F and DQ: one function, one instruction. Manual entries: Intel Intrinsics Guide,
// https://www.intel.com/content/www/us/en/docs/intrinsics-guide/ (search for the _mm512 name).
#pragma once

#include <immintrin.h>

#include "cpu/kernels/tile_ops.hpp"
#include "cpu/prim/unroll.hpp"
#include "cpu/prim/vec_avx2.hpp"

namespace rowmax::cpu {
namespace {

struct Avx512F32 {
    using Value = float;
    using IndexValue = std::int32_t;
    using Reg = __m512;
    using Mask = __mmask16;
    using IndexReg = __m512i;
    static constexpr int lanes = 16;
    static constexpr int registers = 32;
    static constexpr int unrolled = 8;
    static constexpr int more_rows = 0;

    static ROWMAX_INLINE Reg zero() { return _mm512_setzero_ps(); }                   // vpxord
    static ROWMAX_INLINE Reg load(const float* p) { return _mm512_loadu_ps(p); }      // vmovups
    static ROWMAX_INLINE Reg load(const std::byte* p) { return _mm512_loadu_ps(p); }  // vmovups
    static ROWMAX_INLINE void store(float* p, Reg a) { _mm512_storeu_ps(p, a); }      // vmovups
    static ROWMAX_INLINE Reg broadcast(float x) { return _mm512_set1_ps(x); }         // vbroadcastss
    static ROWMAX_INLINE Reg broadcast(const std::byte* p) {                          // vbroadcastss
        float x;
        __builtin_memcpy(&x, p, sizeof(x));
        return _mm512_set1_ps(x);
    }
    static ROWMAX_INLINE Reg fma(Reg a, Reg b, Reg c) {  // vfmadd231ps, into c
        asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
        return c;
    }
    static ROWMAX_INLINE Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }  // vaddps
    static ROWMAX_INLINE Reg mul(Reg a, Reg b) {                                // vmulps
        Reg c;
        asm("vmulps %2, %1, %0" : "=v"(c) : "v"(a), "v"(b));
        return c;
    }
    static ROWMAX_INLINE Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }  // vmaxps: b when equal or NaN

    static ROWMAX_INLINE Mask ordered(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_ORD_Q); }          // vcmpps
    static ROWMAX_INLINE Mask greater(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }          // vcmpps
    static ROWMAX_INLINE Mask not_less_equal(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ); }  // vcmpps
    static ROWMAX_INLINE Mask both(Mask a, Mask b) { return _kand_mask16(a, b); }                             // kandw
    static ROWMAX_INLINE bool all(Mask a) { return _kortestc_mask16_u8(a, a) != 0; }                     // kortestw
    static ROWMAX_INLINE Reg select(Mask m, Reg yes, Reg no) { return _mm512_mask_mov_ps(no, m, yes); }  // vmovaps

    static ROWMAX_INLINE IndexReg load_index(const std::int32_t* p) { return _mm512_loadu_si512(p); }  // vmovdqu32
    static ROWMAX_INLINE void store_index(std::int32_t* p, IndexReg a) { _mm512_storeu_si512(p, a); }  // vmovdqu32
    static ROWMAX_INLINE IndexReg broadcast_index(std::int32_t x) { return _mm512_set1_epi32(x); }     // vpbroadcastd
    static ROWMAX_INLINE IndexReg select_index(Mask m, IndexReg yes, IndexReg no) {                    // vmovdqa32
        return _mm512_mask_mov_epi32(no, m, yes);
    }
};

struct Avx512F64 {
    using Value = double;
    using IndexValue = std::int64_t;
    using Reg = __m512d;
    using Mask = __mmask8;
    using IndexReg = __m512i;
    static constexpr int lanes = 8;
    static constexpr int registers = 32;
    static constexpr int unrolled = 8;
    static constexpr int more_rows = 0;

    static ROWMAX_INLINE Reg zero() { return _mm512_setzero_pd(); }                   // vpxord
    static ROWMAX_INLINE Reg load(const double* p) { return _mm512_loadu_pd(p); }     // vmovupd
    static ROWMAX_INLINE Reg load(const std::byte* p) { return _mm512_loadu_pd(p); }  // vmovupd
    static ROWMAX_INLINE void store(double* p, Reg a) { _mm512_storeu_pd(p, a); }     // vmovupd
    static ROWMAX_INLINE Reg broadcast(double x) { return _mm512_set1_pd(x); }        // vbroadcastsd
    static ROWMAX_INLINE Reg broadcast(const std::byte* p) {                          // vbroadcastsd
        double x;
        __builtin_memcpy(&x, p, sizeof(x));
        return _mm512_set1_pd(x);
    }
    static ROWMAX_INLINE Reg fma(Reg a, Reg b, Reg c) {  // vfmadd231pd, into c
        asm("vfmadd231pd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
        return c;
    }
    static ROWMAX_INLINE Reg add(Reg a, Reg b) { return _mm512_add_pd(a, b); }  // vaddpd
    static ROWMAX_INLINE Reg mul(Reg a, Reg b) {                                // vmulpd
        Reg c;
        asm("vmulpd %2, %1, %0" : "=v"(c) : "v"(a), "v"(b));
        return c;
    }
    static ROWMAX_INLINE Reg max(Reg a, Reg b) { return _mm512_max_pd(a, b); }  // vmaxpd: b when equal or NaN

    static ROWMAX_INLINE Mask ordered(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_ORD_Q); }          // vcmppd
    static ROWMAX_INLINE Mask greater(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_GT_OQ); }          // vcmppd
    static ROWMAX_INLINE Mask not_less_equal(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_NLE_UQ); }  // vcmppd
    static ROWMAX_INLINE Mask both(Mask a, Mask b) { return _kand_mask8(a, b); }                              // kandb
    static ROWMAX_INLINE bool all(Mask a) { return _kortestc_mask8_u8(a, a) != 0; }                      // kortestb
    static ROWMAX_INLINE Reg select(Mask m, Reg yes, Reg no) { return _mm512_mask_mov_pd(no, m, yes); }  // vmovapd

    static ROWMAX_INLINE IndexReg load_index(const std::int64_t* p) { return _mm512_loadu_si512(p); }  // vmovdqu32
    static ROWMAX_INLINE void store_index(std::int64_t* p, IndexReg a) { _mm512_storeu_si512(p, a); }  // vmovdqu32
    static ROWMAX_INLINE IndexReg broadcast_index(std::int32_t x) { return _mm512_set1_epi64(x); }     // vpbroadcastq
    static ROWMAX_INLINE IndexReg select_index(Mask m, IndexReg yes, IndexReg no) {                    // vmovdqa64
        return _mm512_mask_mov_epi64(no, m, yes);
    }
};

struct Avx512Half {
    static constexpr int step = 16;
    static ROWMAX_INLINE __m256i load(const std::byte* p) {  // vmovdqu
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    }
    static ROWMAX_INLINE void widen_f16(const std::byte* p, float* to) {  // vcvtph2ps
        _mm512_storeu_ps(to, _mm512_cvtph_ps(load(p)));
    }
    static ROWMAX_INLINE void widen_f8(const std::byte* p, float* to) {
        Avx2Half::widen_f8(p, to);
        Avx2Half::widen_f8(p + 8, to + 8);
    }
    static ROWMAX_INLINE void widen_bf16(const std::byte* p, float* to) {  // vpmovzxwd, vpslld
        _mm512_storeu_si512(to, _mm512_slli_epi32(_mm512_cvtepu16_epi32(load(p)), 16));
    }
};

}  // namespace
}  // namespace rowmax::cpu
