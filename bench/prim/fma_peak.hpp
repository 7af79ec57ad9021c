// The ceiling of arithmetic: how many float32 operations a second this machine's multiply-add units do right now.
#pragma once

namespace rowmax::bench {

enum class Simd { avx2, avx512 };

/// True when this machine has the instruction set.
bool has(Simd simd);

/// GFLOP/s of float32 fused multiply-add, all threads together, measured for about `milliseconds`. 0 when the machine
/// lacks it.
double fma_peak(Simd simd, int threads, double milliseconds);

}  // namespace rowmax::bench
