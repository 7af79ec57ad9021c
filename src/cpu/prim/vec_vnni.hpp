// AVX-512 VNNI: words of four codes, a document's unsigned (raised by 128) and a query's signed. One function, one
// instruction. Manual entries: Intel Intrinsics Guide, https://www.intel.com/content/www/us/en/docs/intrinsics-guide/
#pragma once

#include "cpu/prim/vec_avx2.hpp"
#include "cpu/prim/vec_avx512.hpp"

namespace rowmax::cpu {
namespace {

struct Vnni512Words : Avx512F32 {
    using Floats = Avx512F32;
    static constexpr int more_rows = 1;
    static ROWMAX_INLINE Reg mul(Reg d, Reg q) { return fma(d, q, zero()); }
    static ROWMAX_INLINE Reg fma(Reg d, Reg q, Reg sum) {  // vpdpbusd, into sum
        asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(d), "v"(q));
        return sum;
    }
    static ROWMAX_INLINE Reg to_float(Reg sum, Reg base) {  // vpaddd, vcvtdq2ps
        return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_castps_si512(sum), _mm512_castps_si512(base)));
    }
};

struct Vnni256Words : Avx2Words {
    static ROWMAX_INLINE Reg mul(Reg d, Reg q) { return fma(d, q, zero()); }
    static ROWMAX_INLINE Reg fma(Reg d, Reg q, Reg sum) {  // vpdpbusd, into sum
        asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(d), "v"(q));
        return sum;
    }
};

struct VnniCodes {
    static constexpr std::int64_t in_word = 4;
    static constexpr std::int32_t offset = 128;
    static constexpr std::int64_t step = 32;
    static ROWMAX_INLINE void widen(const std::byte* p,
                                    std::byte* to) {  // vpxor: to raise by 128 is to flip the top bit
        const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
        const __m256i raised = _mm256_xor_si256(codes, _mm256_set1_epi8(static_cast<char>(-128)));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), raised);
    }
};

}  // namespace
}  // namespace rowmax::cpu
