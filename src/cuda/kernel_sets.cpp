#include "cuda/kernels/kernel_sets.hpp"

namespace rowmax::cuda {

const KernelEntry few_rows_f16[6] = {
    few_rows_entry<TokenType::f16, 32, false>(),  few_rows_entry<TokenType::f16, 32, true>(),
    few_rows_entry<TokenType::f16, 64, false>(),  few_rows_entry<TokenType::f16, 64, true>(),
    few_rows_entry<TokenType::f16, 128, false>(), few_rows_entry<TokenType::f16, 128, true>()};
const KernelEntry few_rows_bf16[6] = {
    few_rows_entry<TokenType::bf16, 32, false>(),  few_rows_entry<TokenType::bf16, 32, true>(),
    few_rows_entry<TokenType::bf16, 64, false>(),  few_rows_entry<TokenType::bf16, 64, true>(),
    few_rows_entry<TokenType::bf16, 128, false>(), few_rows_entry<TokenType::bf16, 128, true>()};

const KernelEntry many_rows_f16[4] = {
    many_rows_entry<TokenType::f16, false>(), normalized_rows_entry<TokenType::f16, false>(),
    many_rows_entry<TokenType::f16, true>(), normalized_rows_entry<TokenType::f16, true>()};
const KernelEntry many_rows_bf16[4] = {
    many_rows_entry<TokenType::bf16, false>(), normalized_rows_entry<TokenType::bf16, false>(),
    many_rows_entry<TokenType::bf16, true>(), normalized_rows_entry<TokenType::bf16, true>()};

const KernelEntry wide_rows_f16[2] = {wide_rows_entry<TokenType::f16, false>(),
                                      wide_rows_entry<TokenType::f16, true>()};
const KernelEntry wide_rows_bf16[2] = {wide_rows_entry<TokenType::bf16, false>(),
                                       wide_rows_entry<TokenType::bf16, true>()};

const KernelEntry few_rows_tf32[6] = {
    few_rows_entry<TokenType::tf32, 32, false>(),  few_rows_entry<TokenType::tf32, 32, true>(),
    few_rows_entry<TokenType::tf32, 64, false>(),  few_rows_entry<TokenType::tf32, 64, true>(),
    few_rows_entry<TokenType::tf32, 128, false>(), few_rows_entry<TokenType::tf32, 128, true>()};
const KernelEntry many_rows_tf32[2] = {many_rows_entry<TokenType::tf32, false>(),
                                       many_rows_entry<TokenType::tf32, true>()};

const KernelEntry few_rows_i8[6] = {
    few_rows_entry<TokenType::i8, 32, false>(),  few_rows_entry<TokenType::i8, 32, true>(),
    few_rows_entry<TokenType::i8, 64, false>(),  few_rows_entry<TokenType::i8, 64, true>(),
    few_rows_entry<TokenType::i8, 128, false>(), few_rows_entry<TokenType::i8, 128, true>()};
const KernelEntry many_rows_i8[2] = {many_rows_entry<TokenType::i8, false>(), many_rows_entry<TokenType::i8, true>()};
const KernelEntry few_rows_f8[6] = {
    few_rows_entry<TokenType::f8, 32, false>(),  few_rows_entry<TokenType::f8, 32, true>(),
    few_rows_entry<TokenType::f8, 64, false>(),  few_rows_entry<TokenType::f8, 64, true>(),
    few_rows_entry<TokenType::f8, 128, false>(), few_rows_entry<TokenType::f8, 128, true>()};
const KernelEntry many_rows_f8[2] = {many_rows_entry<TokenType::f8, false>(), many_rows_entry<TokenType::f8, true>()};

const KernelEntry split_rows_f32[4] = {split_rows_entry<32, false>(), split_rows_entry<32, true>(),
                                       split_rows_entry<64, false>(), split_rows_entry<64, true>()};

const KernelEntry portable_f16[2] = {portable_entry<TokenType::f16, false>(), portable_entry<TokenType::f16, true>()};
const KernelEntry portable_bf16[2] = {portable_entry<TokenType::bf16, false>(),
                                      portable_entry<TokenType::bf16, true>()};
const KernelEntry portable_f32[2] = {portable_entry<TokenType::f32, false>(), portable_entry<TokenType::f32, true>()};
const KernelEntry portable_tf32[2] = {portable_entry<TokenType::tf32, false>(),
                                      portable_entry<TokenType::tf32, true>()};
const KernelEntry portable_i8[2] = {portable_entry<TokenType::i8, false>(), portable_entry<TokenType::i8, true>()};
const KernelEntry portable_f8[2] = {portable_entry<TokenType::f8, false>(), portable_entry<TokenType::f8, true>()};

}  // namespace rowmax::cuda
