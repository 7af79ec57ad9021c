// The CPU's rows, in order of preference. All give the same bits; the first whose instructions this machine has runs.
#include <fmt/format.h>

#include <string>

#include "core/registry.hpp"
#include "cpu/kernels/backward.hpp"
#include "cpu/kernels/score.hpp"
#include "cpu/kernels/select.hpp"
#include "cpu/prim/features.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::cpu {

// Plain C++ takes long to compile: a table for each kind of kernel.
extern const TileOps scalar4_ops;
extern const TileOps scalar4_f64_ops;
extern const TileOps scalar4_codes_ops;
extern const TileOps scalar4_bits_ops;
extern const TileOps scalar16_ops;
extern const TileOps scalar16_f64_ops;
extern const TileOps scalar16_codes_ops;
extern const TileOps scalar16_bits_ops;
extern const SelectionOps scalar4_selection_ops;
extern const SelectionOps scalar16_selection_ops;
#if defined(__x86_64__)
extern const TileOps avx2_ops;
extern const TileOps avx512_ops;
extern const TileOps avx512_vnni_ops;
extern const TileOps avx512_popcnt_ops;
extern const SelectionOps avx2_selection_ops;
extern const SelectionOps avx512_selection_ops;
#endif

namespace {

using core::Kernel;

std::string nothing_missing() {
    return {};
}

template <DType Type>
std::string refuse(const core::Params& params) {
    return params.dtype == Type ? std::string() : std::string(name_of(params.dtype));
}

template <const TileOps& Ops>
void score_with(const core::Params& params, const core::Outputs& outputs) {
    score(Ops, params, outputs);
}

template <const TileOps& Ops>
void backward_with(const core::Params& params, const core::Gradients& gradients) {
    backward(Ops, params, gradients);
}

/// A function of select.hpp with the functions of one instruction set.
template <const TileOps& Ops, const SelectionOps& Selection, auto Function, class Call>
void select_with(const core::Params& params, const Call& call) {
    Function(Ops, Selection, params, call);
}

template <const TileOps& Ops, const SelectionOps& Selection>
constexpr core::SelectionKernels selection = {
    &select_with<Ops, Selection, &score_top_tokens, core::TopTokens>,
    &select_with<Ops, Selection, &score_smooth, core::Smooth>,
    &select_with<Ops, Selection, &smooth_backward, core::SmoothGradients>,
    &select_with<Ops, Selection, &score_prefixes, core::Prefixes>,
    &select_with<Ops, Selection, &score_retrieved, core::Retrieval>,
};

template <const TileOps& Ops, const SelectionOps& Selection, DType Type>
constexpr Kernel row(std::string_view name, std::string_view description, std::string (*missing)()) {
    return {name,
            "cpu",
            description,
            missing,
            &refuse<Type>,
            &score_with<Ops>,
            &backward_with<Ops>,
            nullptr,
            nullptr,
            &selection<Ops, Selection>};
}

/// Codes have no gradient.
template <const TileOps& Ops, DType Type = DType::i8>
constexpr Kernel code_row(std::string_view name, std::string_view description, std::string (*missing)()) {
    return {name, "cpu", description, missing, &refuse<Type>, &score_with<Ops>, nullptr};
}

/// Of uint8 tokens.
template <core::Coding Coding>
std::string refuse_coding(const core::Params& params) {
    if (params.dtype != DType::u8) return std::string(name_of(params.dtype));
    if (params.compressed->coding == Coding) return {};
    return Coding == core::Coding::bits ? "residuals" : "sign bits";
}

template <const TileOps& Ops>
constexpr Kernel bit_row(std::string_view name, std::string_view description, std::string (*missing)()) {
    return {name, "cpu", description, missing, &refuse_coding<core::Coding::bits>, &score_with<Ops>, nullptr};
}

template <const TileOps& Ops>
constexpr Kernel residual_row(std::string_view name, std::string_view description, std::string (*missing)()) {
    return {name,
            "cpu",
            description,
            missing,
            &refuse_coding<core::Coding::residual>,
            &score_with<Ops>,
            &backward_with<Ops>};
}

constexpr Kernel rows[] = {
#if defined(__x86_64__)
    row<avx512_ops, avx512_selection_ops, DType::f32>("cpu.avx512.f32", "AVX-512, tiles of 8 tokens x 32 lanes",
                                                      &missing_avx512),
    row<avx512_ops, avx512_selection_ops, DType::f16>("cpu.avx512.f16", "AVX-512, float16 widened in L1",
                                                      &missing_avx512),
    row<avx512_ops, avx512_selection_ops, DType::bf16>("cpu.avx512.bf16", "AVX-512, bfloat16 widened in L1",
                                                       &missing_avx512),
    row<avx512_ops, avx512_selection_ops, DType::f64>("cpu.avx512.f64", "AVX-512, tiles of 8 tokens x 16 lanes",
                                                      &missing_avx512),
    code_row<avx512_vnni_ops>("cpu.avx512.i8", "AVX-512 VNNI, int8 multiplied as bytes", &missing_avx512_vnni),
    code_row<avx512_ops, DType::f8e4m3>("cpu.avx512.f8e4m3", "AVX-512, float8 widened in L1", &missing_avx512),
    bit_row<avx512_popcnt_ops>("cpu.avx512.bits", "AVX-512 VPOPCNTDQ, sign bits", &missing_avx512_popcnt),
    residual_row<avx512_ops>("cpu.avx512.residual", "AVX-512, residual codes decoded in L1", &missing_avx512),
    row<avx2_ops, avx2_selection_ops, DType::f32>("cpu.avx2.f32", "AVX2 + FMA, tiles of 6 tokens x 16 lanes",
                                                  &missing_avx2),
    row<avx2_ops, avx2_selection_ops, DType::f16>("cpu.avx2.f16", "AVX2 + F16C, float16 widened in L1", &missing_avx2),
    row<avx2_ops, avx2_selection_ops, DType::bf16>("cpu.avx2.bf16", "AVX2, bfloat16 widened in L1", &missing_avx2),
    row<avx2_ops, avx2_selection_ops, DType::f64>("cpu.avx2.f64", "AVX2 + FMA, tiles of 6 tokens x 8 lanes",
                                                  &missing_avx2),
    code_row<avx2_ops>("cpu.avx2.i8", "AVX2, int8 multiplied as 16-bit numbers", &missing_avx2),
    code_row<avx2_ops, DType::f8e4m3>("cpu.avx2.f8e4m3", "AVX2 + FMA, float8 widened in L1", &missing_avx2),
    bit_row<avx2_ops>("cpu.avx2.bits", "AVX2, sign bits counted by a table of half bytes", &missing_avx2),
    residual_row<avx2_ops>("cpu.avx2.residual", "AVX2 + FMA, residual codes decoded in L1", &missing_avx2),
#endif
    row<scalar4_ops, scalar4_selection_ops, DType::f32>("cpu.scalar4.f32", "plain C++, any machine", &nothing_missing),
    row<scalar4_ops, scalar4_selection_ops, DType::f16>("cpu.scalar4.f16", "plain C++, any machine", &nothing_missing),
    row<scalar4_ops, scalar4_selection_ops, DType::bf16>("cpu.scalar4.bf16", "plain C++, any machine",
                                                         &nothing_missing),
    row<scalar4_f64_ops, scalar4_selection_ops, DType::f64>("cpu.scalar4.f64", "plain C++, any machine",
                                                            &nothing_missing),
    code_row<scalar4_codes_ops>("cpu.scalar4.i8", "plain C++, any machine", &nothing_missing),
    code_row<scalar4_ops, DType::f8e4m3>("cpu.scalar4.f8e4m3", "plain C++, any machine", &nothing_missing),
    bit_row<scalar4_bits_ops>("cpu.scalar4.bits", "plain C++, any machine", &nothing_missing),
    residual_row<scalar4_ops>("cpu.scalar4.residual", "plain C++, any machine", &nothing_missing),
    row<scalar16_ops, scalar16_selection_ops, DType::f32>("cpu.scalar16.f32", "plain C++ in the tiles of AVX-512",
                                                          &nothing_missing),
    row<scalar16_ops, scalar16_selection_ops, DType::f16>("cpu.scalar16.f16", "plain C++ in the tiles of AVX-512",
                                                          &nothing_missing),
    row<scalar16_ops, scalar16_selection_ops, DType::bf16>("cpu.scalar16.bf16", "plain C++ in the tiles of AVX-512",
                                                           &nothing_missing),
    row<scalar16_f64_ops, scalar16_selection_ops, DType::f64>("cpu.scalar16.f64", "plain C++ in the tiles of AVX-512",
                                                              &nothing_missing),
    code_row<scalar16_codes_ops>("cpu.scalar16.i8", "plain C++ in the tiles and words of VNNI", &nothing_missing),
    code_row<scalar16_ops, DType::f8e4m3>("cpu.scalar16.f8e4m3", "plain C++ in the tiles of AVX-512", &nothing_missing),
    bit_row<scalar16_bits_ops>("cpu.scalar16.bits", "plain C++ in the tiles of AVX-512", &nothing_missing),
    residual_row<scalar16_ops>("cpu.scalar16.residual", "plain C++ in the tiles of AVX-512", &nothing_missing),
};

}  // namespace
}  // namespace rowmax::cpu

namespace rowmax::core {

std::span<const Kernel> cpu_kernels() {
    return cpu::rows;
}

}  // namespace rowmax::core
