// AVX-512 VPOPCNTDQ: differing bits of words. One function, one instruction or two. Manual entries: Intel Intrinsics
// Guide, https://www.intel.com/content/www/us/en/docs/intrinsics-guide/
#pragma once

#include "cpu/prim/vec_avx2.hpp"
#include "cpu/prim/vec_avx512.hpp"

namespace rowmax::cpu {
namespace {

struct Popcnt512Bits : Avx512F32 {
    using Floats = Avx512F32;
    static constexpr int more_rows = 1;
    static ROWMAX_INLINE Reg mul(Reg d, Reg q) {  // vpxord, vpopcntd
        const __m512i differ = _mm512_xor_si512(_mm512_castps_si512(d), _mm512_castps_si512(q));
        return _mm512_castsi512_ps(_mm512_popcnt_epi32(differ));
    }
    // In one piece: told apart, gcc moves the first of all rows to the front, where they take the accumulators'
    // registers.
    static ROWMAX_INLINE Reg fma(Reg d, Reg q, Reg sum) {  // vpxord, vpopcntd, vpaddd
        Reg t;
        asm("vpxord %3, %2, %1\n\tvpopcntd %1, %1\n\tvpaddd %1, %0, %0" : "+v"(sum), "=&v"(t) : "v"(d), "v"(q));
        return sum;
    }
    /// base - 2 sum
    static ROWMAX_INLINE Reg to_float(Reg sum, Reg base) {  // vpslld, vpsubd, vcvtdq2ps
        const __m512i twice = _mm512_slli_epi32(_mm512_castps_si512(sum), 1);
        return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_castps_si512(base), twice));
    }
};

struct Popcnt256Bits : Avx2Bits {
    static ROWMAX_INLINE Reg mul(Reg d, Reg q) {  // vpxor, vpopcntd
        const __m256i differ = _mm256_xor_si256(_mm256_castps_si256(d), _mm256_castps_si256(q));
        return _mm256_castsi256_ps(_mm256_popcnt_epi32(differ));
    }
    static ROWMAX_INLINE Reg fma(Reg d, Reg q, Reg sum) {
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sum), _mm256_castps_si256(mul(d, q))));
    }
};

}  // namespace
}  // namespace rowmax::cpu
