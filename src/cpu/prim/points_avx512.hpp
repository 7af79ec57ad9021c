// What distances between points need beyond vec_avx512.hpp: one function, one instruction.
#pragma once

#include "cpu/prim/vec_avx512.hpp"

namespace rowmax::cpu {
namespace {

struct Avx512PointsF32 : Avx512F32 {
    static ROWMAX_INLINE Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }                           // vsubps
    static ROWMAX_INLINE Reg abs(Reg a) { return _mm512_abs_ps(a); }                                     // vpandd
    static ROWMAX_INLINE Mask less_equal(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }  // vcmpps
    static ROWMAX_INLINE unsigned bits(Mask m) { return m; }                                             // kmovw
};

struct Avx512PointsF64 : Avx512F64 {
    static ROWMAX_INLINE Reg sub(Reg a, Reg b) { return _mm512_sub_pd(a, b); }                           // vsubpd
    static ROWMAX_INLINE Reg abs(Reg a) { return _mm512_abs_pd(a); }                                     // vpandq
    static ROWMAX_INLINE Mask less_equal(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ); }  // vcmppd
    static ROWMAX_INLINE unsigned bits(Mask m) { return m; }                                             // kmovb
};

}  // namespace
}  // namespace rowmax::cpu
