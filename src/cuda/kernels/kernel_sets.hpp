// The kernels that are compiled in: one array a row of the table.
#pragma once

#include <array>

#include "cuda/kernels/kernel_entry.hpp"
#include "cuda/prim/token_type.cuh"

namespace rowmax::cuda {

// One function for each kernel; the files of inst/ instantiate them.
template <TokenType Type, int Rows, bool Indexed>
KernelEntry few_rows_entry();
template <TokenType Type, bool Indexed>
KernelEntry many_rows_entry();
template <TokenType Type, bool Indexed>
KernelEntry normalized_rows_entry();
template <TokenType Type, bool Indexed>
KernelEntry wide_rows_entry();
template <TokenType Type, bool Indexed>
KernelEntry portable_entry();
template <int Rows, bool Indexed>
KernelEntry split_rows_entry();

extern const KernelEntry few_rows_f16[6];
extern const KernelEntry few_rows_bf16[6];
extern const KernelEntry many_rows_f16[4];
extern const KernelEntry many_rows_bf16[4];
extern const KernelEntry wide_rows_f16[2];
extern const KernelEntry wide_rows_bf16[2];
extern const KernelEntry few_rows_tf32[6];
extern const KernelEntry many_rows_tf32[2];
extern const KernelEntry few_rows_i8[6];
extern const KernelEntry many_rows_i8[2];
extern const KernelEntry few_rows_f8[6];
extern const KernelEntry many_rows_f8[2];
extern const KernelEntry split_rows_f32[4];
extern const KernelEntry portable_f16[2];
extern const KernelEntry portable_bf16[2];
extern const KernelEntry portable_f32[2];
extern const KernelEntry portable_tf32[2];
extern const KernelEntry portable_i8[2];
extern const KernelEntry portable_f8[2];

struct SecondPassKernels {
    const void* add_groups = nullptr;
    const void* join_parts = nullptr;
};
extern const SecondPassKernels second_pass_kernels;

template <int Count>
constexpr KernelSet set_of(const KernelEntry (&entries)[Count]) {
    return {entries, Count};
}

inline std::array<KernelSet, 13> tiled_sets() {
    return {set_of(few_rows_f16),   set_of(few_rows_bf16),  set_of(many_rows_f16), set_of(many_rows_bf16),
            set_of(wide_rows_f16),  set_of(wide_rows_bf16), set_of(few_rows_tf32), set_of(many_rows_tf32),
            set_of(split_rows_f32), set_of(few_rows_i8),    set_of(many_rows_i8),  set_of(few_rows_f8),
            set_of(many_rows_f8)};
}
inline std::array<KernelSet, 6> portable_sets() {
    return {set_of(portable_f16),  set_of(portable_bf16), set_of(portable_f32),
            set_of(portable_tf32), set_of(portable_i8),   set_of(portable_f8)};
}

}  // namespace rowmax::cuda
