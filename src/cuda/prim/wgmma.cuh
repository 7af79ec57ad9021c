// Tensor cores by warpgroup (wgmma): 64 rows times 8 to 128 columns, both operands in shared memory, 16 products a
// step (8 of tf32, 32 of float8; int8: wgmma_integers.cuh).
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-instructions
//
// Operands are rows of 128 bytes in the layout that the copy engine calls SWIZZLE_128B: groups of 8 rows,
// 1024 bytes apart, whose 16-byte pieces are permuted by row number. Thread (warp w, lane l) holds, for each 8 columns,
// rows 16 w + l / 4 (elements 0, 1) and that + 8 (elements 2, 3), columns 2 (l % 4) and the next.
#pragma once

#include <cstdint>

#include "cuda/prim/barrier.cuh"
#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

/// What wgmma needs to know about an operand that starts at an address of shared memory.
__device__ __forceinline__ std::uint64_t operand(std::uint32_t address) {
    constexpr std::uint64_t swizzle_128 = std::uint64_t{1} << 62;
    constexpr std::uint64_t group_stride = std::uint64_t{1024 >> 4} << 32;
    constexpr std::uint64_t unused_stride = std::uint64_t{1} << 16;
    return swizzle_128 | group_stride | unused_stride | ((address & 0x3ffffU) >> 4);
}

/// The same operand, `steps` steps of 32 bytes further. Addresses end at 256 KiB, far from a carry into the upper half.
__device__ __forceinline__ std::uint64_t advance(std::uint64_t operand, int steps) {
    const auto low = static_cast<std::uint32_t>(operand) + static_cast<std::uint32_t>(steps * 2);
    return (operand & 0xffffffff00000000U) | low;
}

/// Before the first multiply after registers or shared memory were written.
__device__ __forceinline__ void multiply_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void close_multiply_group() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int Open>
__device__ __forceinline__ void wait_multiply_groups() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Open) : "memory");
}

/// After the wait for the group that computes `sum`: the compiler does not know that it is complete only then, and
/// would have what reads it begin before.
template <int Elements>
__device__ __forceinline__ void sum_is_complete(float (&sum)[Elements]) {
#pragma unroll
    for (float& x : sum) asm volatile("" : "+f"(x)::"memory");
}

/// How many products a step adds: 32 bytes of either operand.
template <TokenType Type>
inline constexpr char products_of_step[] = "k16";
template <>
inline constexpr char products_of_step<TokenType::tf32>[] = "k8";
template <>
inline constexpr char products_of_step<TokenType::f8>[] = "k32";
/// The end of the instruction: only 16-bit operands can be transposed.
template <TokenType Type>
inline constexpr char not_transposed[] = ", 0, 0";
template <>
inline constexpr char not_transposed<TokenType::tf32>[] = "";
template <>
inline constexpr char not_transposed<TokenType::f8>[] = "";

// sum = a x b, or with `add` sum += a x b. One function for each number of columns: twice that of sum's elements.

template <TokenType Type>
__device__ __forceinline__ void multiply(float (&sum)[8], std::uint64_t a, std::uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16%12.f32.%11.%11 {"
        "%0, %1, %2, %3, %4, %5, %6, %7}, "
        "%8, %9, p, 1, 1%13;\n}"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "C"(type_name<Type>), "C"(products_of_step<Type>),
          "C"(not_transposed<Type>));
}

template <TokenType Type>
__device__ __forceinline__ void multiply(float (&sum)[16], std::uint64_t a, std::uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32%20.f32.%19.%19 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, p, 1, 1%21;\n}"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
          "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]),
          "+f"(sum[14]), "+f"(sum[15])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "C"(type_name<Type>), "C"(products_of_step<Type>),
          "C"(not_transposed<Type>));
}

template <TokenType Type>
__device__ __forceinline__ void multiply(float (&sum)[32], std::uint64_t a, std::uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64%36.f32.%35.%35 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1%37;\n}"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
          "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]),
          "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]),
          "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]),
          "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "C"(type_name<Type>), "C"(products_of_step<Type>),
          "C"(not_transposed<Type>));
}

template <TokenType Type>
__device__ __forceinline__ void multiply(float (&sum)[48], std::uint64_t a, std::uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %50, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n96%52.f32.%51.%51 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
        "%48, %49, p, 1, 1%53;\n}"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
          "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]),
          "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]),
          "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]),
          "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31]), "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]),
          "+f"(sum[35]), "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]), "+f"(sum[40]), "+f"(sum[41]),
          "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "C"(type_name<Type>), "C"(products_of_step<Type>),
          "C"(not_transposed<Type>));
}

template <TokenType Type>
__device__ __forceinline__ void multiply(float (&sum)[64], std::uint64_t a, std::uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128%68.f32.%67.%67 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1%69;\n}"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
          "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]),
          "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]),
          "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]),
          "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31]), "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]),
          "+f"(sum[35]), "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]), "+f"(sum[40]), "+f"(sum[41]),
          "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]), "+f"(sum[48]),
          "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]), "+f"(sum[54]), "+f"(sum[55]),
          "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]), "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]),
          "+f"(sum[63])
        : "l"(a), "l"(b), "r"(static_cast<int>(add)), "C"(type_name<Type>), "C"(products_of_step<Type>),
          "C"(not_transposed<Type>));
}

}  // namespace rowmax::cuda
