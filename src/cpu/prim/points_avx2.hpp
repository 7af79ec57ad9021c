// What distances between points need beyond vec_avx2.hpp: one function, one instruction.
#pragma once

#include "cpu/prim/vec_avx2.hpp"

namespace rowmax::cpu {
namespace {

struct Avx2PointsF32 : Avx2F32 {
    static ROWMAX_INLINE Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }                           // vsubps
    static ROWMAX_INLINE Reg abs(Reg a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }           // vandnps
    static ROWMAX_INLINE Mask less_equal(Reg a, Reg b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }       // vcmpps
    static ROWMAX_INLINE unsigned bits(Mask m) { return static_cast<unsigned>(_mm256_movemask_ps(m)); }  // vmovmskps
};

struct Avx2PointsF64 : Avx2F64 {
    static ROWMAX_INLINE Reg sub(Reg a, Reg b) { return _mm256_sub_pd(a, b); }                           // vsubpd
    static ROWMAX_INLINE Reg abs(Reg a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }            // vandnpd
    static ROWMAX_INLINE Mask less_equal(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_LE_OQ); }       // vcmppd
    static ROWMAX_INLINE unsigned bits(Mask m) { return static_cast<unsigned>(_mm256_movemask_pd(m)); }  // vmovmskpd
};

}  // namespace
}  // namespace rowmax::cpu
