// The rows for CUDA devices, in order of preference. Rows of one token type give the same bits.
#include <fmt/format.h>

#include <string>

#include "core/registry.hpp"
#include "cuda/device.hpp"
#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/launch.hpp"
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

std::string refuse_common(DType type, const core::Params& params) {
    constexpr std::int64_t most_units = std::int64_t{1} << 31;
    if (params.dtype != type) return std::string(name_of(params.dtype));
    if (params.pairs.count >= most_units) return "2^31 pairs in one call";
    return {};
}

template <DType Type, const auto& Entries>
std::string refuse_few(const core::Params& params) {
    std::string why = refuse_common(Type, params);
    if (!why.empty()) return why;
    if (params.dim > tiled_dim_most) return fmt::format("d = {}, at most {}", params.dim, tiled_dim_most);
    const std::int64_t most = params.normalize ? few_normalized_rows_most : few_rows_most;
    if (padded_rows(params) > most) return fmt::format("{} query rows, at most {}", padded_rows(params), most);
    return refuse_tiled(set_of(Entries), params);
}

template <DType Type, const auto& Entries>
std::string refuse_many(const core::Params& params) {
    std::string why = refuse_common(Type, params);
    if (!why.empty()) return why;
    if (params.dim > tiled_dim_most) return fmt::format("d = {}, at most {}", params.dim, tiled_dim_most);
    return refuse_tiled(set_of(Entries), params);
}

template <DType Type, const auto& Entries>
std::string refuse_wide(const core::Params& params) {
    std::string why = refuse_common(Type, params);
    if (!why.empty()) return why;
    if (params.dim <= tiled_dim_most) return fmt::format("d = {}, more than {}", params.dim, tiled_dim_most);
    return refuse_tiled(set_of(Entries), params);
}

template <DType Type, const auto&>
std::string refuse_portable(const core::Params& params) {
    return refuse_common(Type, params);
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

template <DType Type, const auto& Entries>
constexpr Kernel few(std::string_view name) {
    return {name,
            "cuda",
            "Hopper, up to 128 query rows, d up to 192: document tokens on the long side of wgmma",
            &missing<90, true>,
            &refuse_few<Type, Entries>,
            &tiled<Entries>,
            nullptr,
            &scratch<Entries>};
}

template <DType Type, const auto& Entries>
constexpr Kernel many(std::string_view name) {
    return {name,
            "cuda",
            "Hopper, d up to 192: blocks of 256 query rows on the long side of wgmma",
            &missing<90, true>,
            &refuse_many<Type, Entries>,
            &tiled<Entries>,
            nullptr,
            &scratch<Entries>};
}

template <DType Type, const auto& Entries>
constexpr Kernel wide(std::string_view name) {
    return {name,
            "cuda",
            "Hopper, d above 192: sums of chains are put aside, blocks of up to 128 query rows",
            &missing<90, true>,
            &refuse_wide<Type, Entries>,
            &tiled<Entries>,
            nullptr,
            &scratch<Entries>};
}

template <DType Type, const auto& Entries>
constexpr Kernel portable(std::string_view name, std::string_view description) {
    return {name,          "cuda",  description,      &missing<80, false>, &refuse_portable<Type, Entries>,
            &any<Entries>, nullptr, &scratch<Entries>};
}

constexpr Kernel rows[] = {
    few<DType::f16, few_rows_f16>("cuda.sm90.few.f16"),
    few<DType::bf16, few_rows_bf16>("cuda.sm90.few.bf16"),
    many<DType::f16, many_rows_f16>("cuda.sm90.many.f16"),
    many<DType::bf16, many_rows_bf16>("cuda.sm90.many.bf16"),
    wide<DType::f16, wide_rows_f16>("cuda.sm90.wide.f16"),
    wide<DType::bf16, wide_rows_bf16>("cuda.sm90.wide.bf16"),
    portable<DType::f16, portable_f16>("cuda.sm80.f16", "any view, any dimension: tensor cores by mma.sync"),
    portable<DType::bf16, portable_bf16>("cuda.sm80.bf16", "any view, any dimension: tensor cores by mma.sync"),
    portable<DType::f32, portable_f32>("cuda.sm80.f32", "any view, any dimension: float32 multiply-add"),
};

}  // namespace
}  // namespace rowmax::cuda

namespace rowmax::core {

std::span<const Kernel> cuda_kernels() {
    return cuda::rows;
}

}  // namespace rowmax::core
