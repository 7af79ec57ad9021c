// The rows for CUDA devices, in order of preference. Rows of one token type and precision give the same bits: those for
// precision "high" stand first, and refuse "highest".
#include <fmt/format.h>

#include <string>

#include "core/registry.hpp"
#include "cuda/backward.hpp"
#include "cuda/device.hpp"
#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/launch.hpp"
#include "cuda/projected.hpp"
#include "cuda/residual.hpp"
#include "cuda/tuning.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::cuda {

namespace {

using core::Kernel;

template <int Capability, bool Only>
std::string missing() {
    if (!device_problem().empty()) return device_problem();
    for (int i = 0; i < device_count(); ++i) {
        const int has = device_info(i).capability;
        if (Only ? has == Capability : has >= Capability) return {};
    }
    return fmt::format("a CUDA device of compute capability {}.{}", Capability / 10, Capability % 10);
}

constexpr DType stored_as(TokenType type) {
    switch (type) {
        case TokenType::f16: return DType::f16;
        case TokenType::bf16: return DType::bf16;
        case TokenType::i8: return DType::i8;
        case TokenType::f8: return DType::f8e4m3;
        case TokenType::f32:
        case TokenType::tf32: break;
    }
    return DType::f32;
}

std::string refuse_common(const KernelSet& kernels, const core::Params& params) {
    constexpr std::int64_t most_units = std::int64_t{1} << 31;
    const TokenType type = kernels.entries[0].type;
    if (params.dtype != stored_as(type)) return std::string(name_of(params.dtype));
    if (core::projection_of(params) != nullptr) return "documents that are hidden states";
    if (type == TokenType::tf32 && params.high_precision_only) return "precision \"highest\"";
    if (params.pairs.count >= most_units) return "2^31 pairs in one call";
    if (params.d.kind == core::SegmentKind::strided && params.d.lengths != nullptr) return "lengths of dense tokens";
    return {};
}

template <const auto& Entries>
std::string refuse_few(const core::Params& params) {
    std::string why = refuse_common(set_of(Entries), params);
    if (!why.empty()) return why;
    const std::int64_t most_dim = one_tile_dim_most(Entries[0].type);
    if (params.dim > most_dim) return fmt::format("d = {}, at most {}", params.dim, most_dim);
    const std::int64_t most = params.normalize ? few_normalized_rows_most : few_rows_most;
    if (padded_rows(params) > most) return fmt::format("{} query rows, at most {}", padded_rows(params), most);
    return refuse_tiled(set_of(Entries), params);
}

template <const auto& Entries>
std::string refuse_many(const core::Params& params) {
    std::string why = refuse_common(set_of(Entries), params);
    if (!why.empty()) return why;
    const std::int64_t most_dim = one_tile_dim_most(Entries[0].type);
    if (params.dim > most_dim) return fmt::format("d = {}, at most {}", params.dim, most_dim);
    return refuse_tiled(set_of(Entries), params);
}

template <const auto& Entries>
std::string refuse_wide(const core::Params& params) {
    std::string why = refuse_common(set_of(Entries), params);
    if (!why.empty()) return why;
    if (params.dim <= tiled_dim_most) return fmt::format("d = {}, more than {}", params.dim, tiled_dim_most);
    return refuse_tiled(set_of(Entries), params);
}

template <const auto& Entries>
std::string refuse_split(const core::Params& params) {
    std::string why = refuse_common(set_of(Entries), params);
    if (!why.empty()) return why;
    return refuse_tiled(set_of(Entries), params);
}

template <const auto& Entries>
std::string refuse_portable(const core::Params& params) {
    return refuse_common(set_of(Entries), params);
}

template <const auto& Entries>
void tiled(const core::Params& params, const core::Outputs& outputs) {
    score_tiled(set_of(Entries), params, outputs);
}

template <const auto& Entries>
void any(const core::Params& params, const core::Outputs& outputs) {
    score_portable(set_of(Entries), params, outputs);
}

template <const auto& Entries>
std::size_t scratch(const core::Params& params, const core::Outputs& outputs) {
    return workspace(set_of(Entries), params, outputs);
}

const BackwardKernels& backward_of(TokenType type) {
    switch (type) {
        case TokenType::f16: return backward_f16;
        case TokenType::bf16: return backward_bf16;
        case TokenType::i8:
        case TokenType::f8:
        case TokenType::f32:
        case TokenType::tf32: break;
    }
    return backward_f32;
}

/// Gradients are those of the winning tokens, whichever kernel found them.
template <const auto& Entries>
void back(const core::Params& params, const core::Gradients& gradients) {
    backward(backward_of(Entries[0].type), params, gradients);
}

template <const auto& Entries>
constexpr Kernel few(std::string_view name) {
    return {name,
            "cuda",
            "Hopper, up to 128 query rows, d up to 192: document tokens on the long side of wgmma",
            &missing<90, true>,
            &refuse_few<Entries>,
            &tiled<Entries>,
            &back<Entries>,
            &scratch<Entries>,
            &backward_workspace};
}

template <const auto& Entries>
constexpr Kernel many(std::string_view name) {
    return {name,
            "cuda",
            "Hopper, d up to 192: blocks of up to 256 query rows on the long side of wgmma",
            &missing<90, true>,
            &refuse_many<Entries>,
            &tiled<Entries>,
            &back<Entries>,
            &scratch<Entries>,
            &backward_workspace};
}

template <const auto& Entries>
constexpr Kernel wide(std::string_view name) {
    return {name,
            "cuda",
            "Hopper, d above 192: sums of chains are put aside, blocks of up to 128 query rows",
            &missing<90, true>,
            &refuse_wide<Entries>,
            &tiled<Entries>,
            &back<Entries>,
            &scratch<Entries>,
            &backward_workspace};
}

template <const auto& Entries>
constexpr Kernel split(std::string_view name) {
    return {name,
            "cuda",
            "Hopper, float32 in bfloat16 parts: document tokens on the long side of wgmma",
            &missing<90, true>,
            &refuse_split<Entries>,
            &tiled<Entries>,
            &back<Entries>,
            &scratch<Entries>,
            &backward_workspace};
}

template <const auto& Entries>
constexpr Kernel portable(std::string_view name, std::string_view description) {
    return {name,          "cuda",         description,       &missing<80, false>, &refuse_portable<Entries>,
            &any<Entries>, &back<Entries>, &scratch<Entries>, &backward_workspace};
}

template <TokenType Type>
constexpr Kernel projected(std::string_view name) {
    return {name,
            "cuda",
            "Hopper, hidden states: projected, normalised and scored in one pass, d up to 128, up to 256 query rows",
            &missing<90, true>,
            [](const core::Params& params) { return refuse_projected(Type, params); },
            [](const core::Params& params, const core::Outputs& out) { score_projected(Type, params, out); },
            nullptr,
            &projected_workspace,
            nullptr,
            nullptr,
            [](const core::Params& params, void* tokens) { write_projected_tokens(Type, params, tokens); }};
}

constexpr Kernel residual(std::string_view name) {
    return {name,
            "cuda",
            "residual codes: centroids and weights multiplied as they are looked up",
            &missing<80, false>,
            &refuse_residual,
            &score_residual,
            &backward_residual,
            &residual_workspace,
            &residual_backward_workspace};
}

constexpr Kernel bits(std::string_view name) {
    return {name,
            "cuda",
            "sign bits on both sides: tensor cores multiply -1 and 1",
            &missing<80, false>,
            &refuse_bits,
            &score_residual,
            nullptr,
            &residual_workspace};
}

/// A row whose tokens are codes: they have no gradient.
constexpr Kernel codes(Kernel row, std::string_view description) {
    row.description = description;
    row.backward = nullptr;
    row.backward_workspace = nullptr;
    return row;
}

constexpr std::string_view few_codes =
    "Hopper, up to 128 query rows, d up to 384: document tokens on the long side of wgmma";
constexpr std::string_view many_codes = "Hopper, d up to 384: blocks of up to 256 query rows on the long side of wgmma";

constexpr Kernel rows[] = {
    few<few_rows_f16>("cuda.sm90.few.f16"),
    few<few_rows_bf16>("cuda.sm90.few.bf16"),
    many<many_rows_f16>("cuda.sm90.many.f16"),
    many<many_rows_bf16>("cuda.sm90.many.bf16"),
    wide<wide_rows_f16>("cuda.sm90.wide.f16"),
    wide<wide_rows_bf16>("cuda.sm90.wide.bf16"),
    portable<portable_f16>("cuda.sm80.f16", "any view, any dimension: tensor cores by mma.sync"),
    portable<portable_bf16>("cuda.sm80.bf16", "any view, any dimension: tensor cores by mma.sync"),
    few<few_rows_tf32>("cuda.sm90.few.tf32"),
    many<many_rows_tf32>("cuda.sm90.many.tf32"),
    portable<portable_tf32>("cuda.sm80.tf32", "precision \"high\", any view, any dimension: float32 as TF32"),
    split<split_rows_f32>("cuda.sm90.split.f32"),
    portable<portable_f32>("cuda.sm80.f32", "any view, any dimension: float32 in bfloat16 parts"),
    codes(few<few_rows_i8>("cuda.sm90.few.i8"), few_codes),
    codes(many<many_rows_i8>("cuda.sm90.many.i8"), many_codes),
    codes(portable<portable_i8>("cuda.sm80.i8", {}), "any view, any dimension: int8 tensor cores by mma.sync"),
    codes(few<few_rows_f8>("cuda.sm90.few.f8e4m3"), few_codes),
    codes(many<many_rows_f8>("cuda.sm90.many.f8e4m3"), many_codes),
    codes(portable<portable_f8>("cuda.sm80.f8e4m3", {}), "any view, any dimension: float8 widened to float16"),
    projected<TokenType::f16>("cuda.sm90.hidden.f16"),
    projected<TokenType::bf16>("cuda.sm90.hidden.bf16"),
    residual("cuda.sm80.residual"),
    bits("cuda.sm80.bits"),
};

}  // namespace
}  // namespace rowmax::cuda

namespace rowmax::core {

std::span<const Kernel> cuda_kernels() {
    return cuda::rows;
}

}  // namespace rowmax::core
