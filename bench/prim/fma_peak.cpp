#include "prim/fma_peak.hpp"

#include <time.h>

#include <cstdint>

#include "prim/together.hpp"

namespace rowmax::bench {
namespace {

// Twelve independent chains cover the latency (4 cycles) of two units. Written in assembly so that no compiler
// keeps an accumulator in memory, and so that this file needs no instruction-set flags.
// VFMADD231PS: Intel SDM volume 2, "VFMADD132PS/VFMADD213PS/VFMADD231PS".
void fma_avx2(std::int64_t rounds) {
    static const float quarter = 0.25F;
    asm volatile(
        "vbroadcastss (%1), %%ymm15\n\t"
        "vxorps %%ymm0, %%ymm0, %%ymm0\n\t vmovaps %%ymm0, %%ymm1\n\t vmovaps %%ymm0, %%ymm2\n\t"
        "vmovaps %%ymm0, %%ymm3\n\t vmovaps %%ymm0, %%ymm4\n\t vmovaps %%ymm0, %%ymm5\n\t"
        "vmovaps %%ymm0, %%ymm6\n\t vmovaps %%ymm0, %%ymm7\n\t vmovaps %%ymm0, %%ymm8\n\t"
        "vmovaps %%ymm0, %%ymm9\n\t vmovaps %%ymm0, %%ymm10\n\t vmovaps %%ymm0, %%ymm11\n\t"
        ".p2align 5\n"
        "1:\n\t"
        "vfmadd231ps %%ymm15, %%ymm15, %%ymm0\n\t vfmadd231ps %%ymm15, %%ymm15, %%ymm1\n\t"
        "vfmadd231ps %%ymm15, %%ymm15, %%ymm2\n\t vfmadd231ps %%ymm15, %%ymm15, %%ymm3\n\t"
        "vfmadd231ps %%ymm15, %%ymm15, %%ymm4\n\t vfmadd231ps %%ymm15, %%ymm15, %%ymm5\n\t"
        "vfmadd231ps %%ymm15, %%ymm15, %%ymm6\n\t vfmadd231ps %%ymm15, %%ymm15, %%ymm7\n\t"
        "vfmadd231ps %%ymm15, %%ymm15, %%ymm8\n\t vfmadd231ps %%ymm15, %%ymm15, %%ymm9\n\t"
        "vfmadd231ps %%ymm15, %%ymm15, %%ymm10\n\t vfmadd231ps %%ymm15, %%ymm15, %%ymm11\n\t"
        "dec %0\n\t"
        "jnz 1b\n\t"
        "vzeroupper"
        : "+r"(rounds)
        : "r"(&quarter)
        : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
          "xmm11", "xmm15");
}

void fma_avx512(std::int64_t rounds) {
    static const float quarter = 0.25F;
    asm volatile(
        "vbroadcastss (%1), %%zmm15\n\t"
        "vpxord %%zmm0, %%zmm0, %%zmm0\n\t vmovaps %%zmm0, %%zmm1\n\t vmovaps %%zmm0, %%zmm2\n\t"
        "vmovaps %%zmm0, %%zmm3\n\t vmovaps %%zmm0, %%zmm4\n\t vmovaps %%zmm0, %%zmm5\n\t"
        "vmovaps %%zmm0, %%zmm6\n\t vmovaps %%zmm0, %%zmm7\n\t vmovaps %%zmm0, %%zmm8\n\t"
        "vmovaps %%zmm0, %%zmm9\n\t vmovaps %%zmm0, %%zmm10\n\t vmovaps %%zmm0, %%zmm11\n\t"
        ".p2align 5\n"
        "1:\n\t"
        "vfmadd231ps %%zmm15, %%zmm15, %%zmm0\n\t vfmadd231ps %%zmm15, %%zmm15, %%zmm1\n\t"
        "vfmadd231ps %%zmm15, %%zmm15, %%zmm2\n\t vfmadd231ps %%zmm15, %%zmm15, %%zmm3\n\t"
        "vfmadd231ps %%zmm15, %%zmm15, %%zmm4\n\t vfmadd231ps %%zmm15, %%zmm15, %%zmm5\n\t"
        "vfmadd231ps %%zmm15, %%zmm15, %%zmm6\n\t vfmadd231ps %%zmm15, %%zmm15, %%zmm7\n\t"
        "vfmadd231ps %%zmm15, %%zmm15, %%zmm8\n\t vfmadd231ps %%zmm15, %%zmm15, %%zmm9\n\t"
        "vfmadd231ps %%zmm15, %%zmm15, %%zmm10\n\t vfmadd231ps %%zmm15, %%zmm15, %%zmm11\n\t"
        "dec %0\n\t"
        "jnz 1b\n\t"
        "vzeroupper"
        : "+r"(rounds)
        : "r"(&quarter)
        : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
          "xmm11", "xmm15");
}

constexpr int chains = 12;
constexpr std::int64_t rounds_per_look = 40000;  // about 100 us between two looks at the clock

/// Seconds that the calling thread ran: a probe that lost the core for a while must not lower the ceiling.
double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// GFLOP/s of the calling thread.
double rate(Simd simd, double milliseconds) {
    const int lanes = simd == Simd::avx2 ? 8 : 16;
    const double start = thread_seconds();
    double elapsed = 0;
    std::int64_t rounds = 0;
    while (elapsed < milliseconds * 1e-3) {
        simd == Simd::avx2 ? fma_avx2(rounds_per_look) : fma_avx512(rounds_per_look);
        rounds += rounds_per_look;
        elapsed = thread_seconds() - start;
    }
    return static_cast<double>(rounds) * chains * lanes * 2 / elapsed * 1e-9;
}

}  // namespace

bool has(Simd simd) {
    if (simd == Simd::avx512) return __builtin_cpu_supports("avx512f") != 0;
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

double fma_peak(Simd simd, int threads, double milliseconds) {
    if (!has(simd)) return 0;
    return together(threads, [&](int) { return rate(simd, milliseconds); });
}

}  // namespace rowmax::bench
