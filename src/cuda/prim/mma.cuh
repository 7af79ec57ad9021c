// Tensor cores by warp (mma.sync) and the loads that feed them, from compute capability 8.0.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions
#pragma once

#include <cstdint>

#include "cuda/prim/barrier.cuh"
#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

/// Four 8 x 8 tiles of 16-bit elements; lanes 8i .. 8i+7 give the row addresses of tile i.
__device__ __forceinline__ void load_tiles(std::uint32_t (&to)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// sum += a x b of int8, exactly: 16 rows, 8 columns, 32 products each.
template <TokenType Type>
__device__ __forceinline__ void multiply_add(int* sum, const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
    static_assert(Type == TokenType::i8);
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// sum += a x b, 16 rows, 8 columns, 16 products each (8 for tf32: as many bytes).
template <TokenType Type>
__device__ __forceinline__ void multiply_add(float* sum, const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
    if constexpr (Type == TokenType::f16) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else if constexpr (Type == TokenType::tf32) {
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

}  // namespace rowmax::cuda
