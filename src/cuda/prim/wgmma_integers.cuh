// wgmma of int8: exact sums of 32 bits, 32 products a step. Operands and the registers of a sum are those of wgmma.cuh.
#pragma once

#include "cuda/prim/wgmma.cuh"

namespace rowmax::cuda {

/// As for sums of floats.
template <int Elements>
__device__ __forceinline__ void sum_is_complete(int (&sum)[Elements]) {
#pragma unroll
    for (int& x : sum) asm volatile("" : "+r"(x)::"memory");
}

template <TokenType Type>
__device__ __forceinline__ void multiply(int (&sum)[16], std::uint64_t a, std::uint64_t b, bool add) {
    static_assert(Type == TokenType::i8);
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, p;\n}"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3]), "+r"(sum[4]), "+r"(sum[5]), "+r"(sum[6]),
          "+r"(sum[7]), "+r"(sum[8]), "+r"(sum[9]), "+r"(sum[10]), "+r"(sum[11]), "+r"(sum[12]), "+r"(sum[13]),
          "+r"(sum[14]), "+r"(sum[15])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

template <TokenType Type>
__device__ __forceinline__ void multiply(int (&sum)[32], std::uint64_t a, std::uint64_t b, bool add) {
    static_assert(Type == TokenType::i8);
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p;\n}"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3]), "+r"(sum[4]), "+r"(sum[5]), "+r"(sum[6]),
          "+r"(sum[7]), "+r"(sum[8]), "+r"(sum[9]), "+r"(sum[10]), "+r"(sum[11]), "+r"(sum[12]), "+r"(sum[13]),
          "+r"(sum[14]), "+r"(sum[15]), "+r"(sum[16]), "+r"(sum[17]), "+r"(sum[18]), "+r"(sum[19]), "+r"(sum[20]),
          "+r"(sum[21]), "+r"(sum[22]), "+r"(sum[23]), "+r"(sum[24]), "+r"(sum[25]), "+r"(sum[26]), "+r"(sum[27]),
          "+r"(sum[28]), "+r"(sum[29]), "+r"(sum[30]), "+r"(sum[31])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

template <TokenType Type>
__device__ __forceinline__ void multiply(int (&sum)[48], std::uint64_t a, std::uint64_t b, bool add) {
    static_assert(Type == TokenType::i8);
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %50, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
        "%48, %49, p;\n}"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3]), "+r"(sum[4]), "+r"(sum[5]), "+r"(sum[6]),
          "+r"(sum[7]), "+r"(sum[8]), "+r"(sum[9]), "+r"(sum[10]), "+r"(sum[11]), "+r"(sum[12]), "+r"(sum[13]),
          "+r"(sum[14]), "+r"(sum[15]), "+r"(sum[16]), "+r"(sum[17]), "+r"(sum[18]), "+r"(sum[19]), "+r"(sum[20]),
          "+r"(sum[21]), "+r"(sum[22]), "+r"(sum[23]), "+r"(sum[24]), "+r"(sum[25]), "+r"(sum[26]), "+r"(sum[27]),
          "+r"(sum[28]), "+r"(sum[29]), "+r"(sum[30]), "+r"(sum[31]), "+r"(sum[32]), "+r"(sum[33]), "+r"(sum[34]),
          "+r"(sum[35]), "+r"(sum[36]), "+r"(sum[37]), "+r"(sum[38]), "+r"(sum[39]), "+r"(sum[40]), "+r"(sum[41]),
          "+r"(sum[42]), "+r"(sum[43]), "+r"(sum[44]), "+r"(sum[45]), "+r"(sum[46]), "+r"(sum[47])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

template <TokenType Type>
__device__ __forceinline__ void multiply(int (&sum)[64], std::uint64_t a, std::uint64_t b, bool add) {
    static_assert(Type == TokenType::i8);
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p;\n}"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3]), "+r"(sum[4]), "+r"(sum[5]), "+r"(sum[6]),
          "+r"(sum[7]), "+r"(sum[8]), "+r"(sum[9]), "+r"(sum[10]), "+r"(sum[11]), "+r"(sum[12]), "+r"(sum[13]),
          "+r"(sum[14]), "+r"(sum[15]), "+r"(sum[16]), "+r"(sum[17]), "+r"(sum[18]), "+r"(sum[19]), "+r"(sum[20]),
          "+r"(sum[21]), "+r"(sum[22]), "+r"(sum[23]), "+r"(sum[24]), "+r"(sum[25]), "+r"(sum[26]), "+r"(sum[27]),
          "+r"(sum[28]), "+r"(sum[29]), "+r"(sum[30]), "+r"(sum[31]), "+r"(sum[32]), "+r"(sum[33]), "+r"(sum[34]),
          "+r"(sum[35]), "+r"(sum[36]), "+r"(sum[37]), "+r"(sum[38]), "+r"(sum[39]), "+r"(sum[40]), "+r"(sum[41]),
          "+r"(sum[42]), "+r"(sum[43]), "+r"(sum[44]), "+r"(sum[45]), "+r"(sum[46]), "+r"(sum[47]), "+r"(sum[48]),
          "+r"(sum[49]), "+r"(sum[50]), "+r"(sum[51]), "+r"(sum[52]), "+r"(sum[53]), "+r"(sum[54]), "+r"(sum[55]),
          "+r"(sum[56]), "+r"(sum[57]), "+r"(sum[58]), "+r"(sum[59]), "+r"(sum[60]), "+r"(sum[61]), "+r"(sum[62]),
          "+r"(sum[63])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

}  // namespace rowmax::cuda
