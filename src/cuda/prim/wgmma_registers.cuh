// wgmma whose rows come from registers: 64 rows of 16-bit elements times 32 or 64 columns in shared memory, 16 products
// a step. A thread of warp w, lane l holds of rows 16 w + l / 4 (registers 0, 2) and that + 8 (1, 3) the numbers 2 (l %
// 4) and the next (0, 1), and those 8 further (2, 3). See wgmma.cuh for the columns and the sum.
#pragma once

#include "cuda/prim/wgmma.cuh"

namespace rowmax::cuda {

template <TokenType Type>
__device__ __forceinline__ void multiply(float (&sum)[16], const std::uint32_t (&rows)[4], std::uint64_t columns,
                                         bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.%22.%22 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, p, 1, 1, 0;\n}"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
          "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]),
          "+f"(sum[14]), "+f"(sum[15])
        : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(columns), "r"(static_cast<int>(add)),
          "C"(type_name<Type>));
}

__device__ __forceinline__ void multiply_bfloats(float (&sum)[16], const std::uint32_t (&rows)[4],
                                                 std::uint64_t columns, bool add) {
    multiply<TokenType::bf16>(sum, rows, columns, add);
}

__device__ __forceinline__ void multiply_bfloats(float (&sum)[32], const std::uint32_t (&rows)[4],
                                                 std::uint64_t columns, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
          "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]),
          "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]),
          "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]),
          "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31])
        : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(columns), "r"(static_cast<int>(add)));
}

}  // namespace rowmax::cuda
