#include "cuda/residual.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/residual_arguments.hpp"
#include "cuda/kernels/residual_kernels.hpp"
#include "cuda/shared_pairs.hpp"
#include "cuda/tuning.hpp"

namespace rowmax::cuda {

namespace {

/// Of thread blocks' warps, each of which has a document: how many times as many of them as of multiprocessors must be
/// at work before documents are left whole.
constexpr int pieces_each = 6;

bool has_coding(const core::Params& params, core::Coding coding) {
    return params.compressed != nullptr && params.compressed->coding == coding;
}

/// Sign bits are residuals of one bit that stand for -1 and 1.
core::Residual residual_of(const core::Params& params) {
    if (params.compressed->coding == core::Coding::residual) return params.compressed->residual;
    core::Residual signs;
    signs.nbits = 1;
    signs.little = true;
    signs.query_dtype = DType::u8;
    return signs;
}

/// As the kernel multiplies them: of sign bits, whole bytes.
core::Params multiplied(const core::Params& params) {
    core::Params whole = params;
    if (has_coding(params, core::Coding::bits)) whole.dim = (params.dim + 7) / 8 * 8;
    return whole;
}

ResidualEntries entries_of(int nbits) {
    switch (nbits) {
        case 1: return residual_entries<1>();
        case 2: return residual_entries<2>();
        case 4: return residual_entries<4>();
        default: return residual_entries<8>();
    }
}

std::vector<ResidualEntry> all_of(const ResidualEntries& entries) {
    std::vector<ResidualEntry> all = {entries.few, entries.many, entries.wide, entries.halves, entries.halves_plain};
    if (entries.signs_plain.function != nullptr) all.push_back(entries.signs_plain);
    return all;
}

int query_parts(const core::Residual& residual) {
    return residual.query_dtype == DType::f16 || residual.query_dtype == DType::u8 ? 1 : 2;
}

int centroid_parts(const core::Residual& residual) {
    return residual.centroids == nullptr || residual.centroid_dtype == DType::f16 ? 1 : 2;
}

std::int64_t centroid_rows(const core::Residual& residual) {
    return residual.centroids == nullptr ? 1 : residual.centroid_count;
}

int shared_bytes(const ResidualEntry& entry, const core::Params& params) {
    const std::int64_t row = residual_query_bytes(params.dim) * query_parts(residual_of(params));
    return entry.control_bytes + static_cast<int>(row * entry.rows);
}

/// Thread blocks that share a multiprocessor.
int blocks_of(const ResidualEntry& entry, const core::Params& params) {
    constexpr int reserved = 1024;  // by the system, of each
    const int fitting = device_info(params.place.ordinal).shared_bytes / (shared_bytes(entry, params) + reserved);
    return std::clamp(fitting, 1, entry.blocks_each);
}

bool fits(const ResidualEntry& entry, const core::Params& params) {
    return shared_bytes(entry, params) <= device_info(params.place.ordinal).shared_bytes;
}

Plan plan_for(const ResidualEntry& entry, const core::Params& params) {
    return make_plan(params, entry.rows, pieces_each * device_info(params.place.ordinal).processors);
}

/// Whether documents' tokens all start at multiples of so many bytes.
bool starts_at(const core::Params& params, std::int64_t bytes) {
    const core::Segments& d = params.d;
    const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(d.data));
    return (address | d.row_stride | d.stride_outer | d.stride_inner) % bytes == 0;
}

bool fields_by_lane(const core::Params& params) {
    return starts_at(params, residual_lane_dims * residual_of(params).nbits / 8);
}

/// What the kernels for halves take.
bool takes_halves(const core::Params& params) {
    const core::Residual residual = residual_of(params);
    constexpr std::int64_t most_centroids = std::int64_t{1} << 24;  // the places of their rows have 32 bits
    const bool halves = centroid_parts(residual) == 1 && centroid_rows(residual) <= most_centroids &&
                        (residual.weight_data == nullptr || residual.weight_dtype == DType::f16);
    return params.dim == 128 && halves && params.d.mask.data == nullptr && starts_at(params, 16);
}

/// Of the kernels for halves, which hold as many query rows.
const ResidualEntry& half_entry(const ResidualEntries& entries, const core::Params& params,
                                const core::Outputs& outputs) {
    const core::Residual residual = residual_of(params);
    const bool plain =
        query_parts(residual) == 1 && outputs.index == nullptr && plan_for(entries.halves, params).parts == 1;
    if (!plain) return entries.halves;
    const bool signs = residual.centroids == nullptr && entries.signs_plain.function != nullptr;
    return signs ? entries.signs_plain : entries.halves_plain;
}

/// The bits of a score do not depend on it.
ResidualEntry entry_for(const core::Params& params, const core::Outputs& outputs) {
    const ResidualEntries entries = entries_of(residual_of(params).nbits);
    if (takes_halves(params) && padded_rows(params) > entries.few.rows) {
        const ResidualEntry& entry = half_entry(entries, params, outputs);
        if (fits(entry, params)) return entry;
    }
    const bool one_chain = params.dim <= chunks_of_residual_chain * residual_chunk;
    const ResidualEntry& more = one_chain ? entries.many : entries.wide;
    return padded_rows(params) <= entries.few.rows || !fits(more, params) ? entries.few : more;
}

std::size_t table_bytes(const core::Params& params) {
    const core::Residual residual = residual_of(params);
    const std::int64_t row =
        residual_row(params.dim) * centroid_parts(residual) * 2 + static_cast<std::int64_t>(sizeof(float2));
    return static_cast<std::size_t>(centroid_rows(residual) * row);
}

ResidualArguments arguments_of(const core::Params& params, std::byte* table) {
    const core::Residual residual = residual_of(params);
    ResidualArguments arguments;
    arguments.call.params = params;
    arguments.table.count = centroid_rows(residual);
    arguments.table.parts = centroid_parts(residual);
    arguments.table.rows = table;
    arguments.table.rest =
        reinterpret_cast<float2*>(table + arguments.table.count * arguments.table.parts * residual_row(params.dim) * 2);
    arguments.steps = residual.steps;
    arguments.codes = residual.codes;
    arguments.wide_codes = residual.wide_codes;
    arguments.centroids = residual.centroids;
    arguments.centroid_stride = residual.centroid_stride;
    arguments.centroid_dtype = residual.centroid_dtype;
    arguments.weights = residual.weight_data;
    arguments.weight_stride = residual.weight_stride;
    arguments.weight_dtype = residual.weight_dtype;
    arguments.query_dtype = residual.query_dtype;
    arguments.little = residual.little;
    arguments.normalize = residual.normalize || params.normalize;
    arguments.fields_by_lane = fields_by_lane(params);
    arguments.nbits = residual.nbits;
    arguments.query_parts = query_parts(residual);
    return arguments;
}

std::string refuse_coding(const core::Params& params, core::Coding coding) {
    if (!has_coding(params, coding)) return std::string(name_of(params.dtype));
    constexpr std::int64_t most_units = std::int64_t{1} << 31;
    if (params.pairs.count >= most_units) return "2^31 pairs in one call";
    if (!fits(entries_of(residual_of(params).nbits).few, params))
        return fmt::format("d = {} on this device", params.dim);
    return {};
}

}  // namespace

std::string refuse_residual(const core::Params& params) {
    const bool shared = params.pairs.kind == core::PairKind::list || params.q.kind == core::SegmentKind::ranges;
    if (params.backward && shared) return "a backward pass of pairs that may share query tokens";
    if (params.backward && params.normalize) return "a backward pass with normalize";
    return refuse_coding(params, core::Coding::residual);
}

std::string refuse_bits(const core::Params& params) {
    return refuse_coding(params, core::Coding::bits);
}

std::size_t residual_workspace(const core::Params& given, const core::Outputs& outputs) {
    const core::Params params = multiplied(given);
    return table_bytes(params) + shared_pairs_bytes(params, plan_for(entry_for(params, outputs), params));
}

void score_residual(const core::Params& given, const core::Outputs& outputs) {
    const CurrentDevice current(given.place.ordinal);
    wake_device(given.place.ordinal);
    const core::Params params = multiplied(given);
    const Scratch scratch(params.place.workspace, residual_workspace(given, outputs), params.place.stream);
    const ResidualEntry entry = entry_for(params, outputs);
    ResidualArguments arguments = arguments_of(params, scratch.data());
    const std::int64_t table_blocks = (arguments.table.count + residual_table_warps - 1) / residual_table_warps;
    launch(residual_table_kernel, {table_blocks, 32 * residual_table_warps}, params.place, &arguments);

    arguments.surplus = static_cast<float>(params.dim - given.dim);
    Arguments& call = arguments.call;
    call.outputs = outputs;
    call.plan = plan_for(entry, params);
    place_shared_pairs(params, call.plan, scratch.data() + table_bytes(params));
    const std::int64_t most = std::int64_t{device_info(params.place.ordinal).processors} * blocks_of(entry, params);
    const std::int64_t grid = std::min(most, call.plan.units());
    share_out(call.plan, grid);
    launch(entry.function, {grid, 32 * residual_warps, shared_bytes(entry, params)}, params.place, &arguments);
    finish_shared_pairs(call);
}

namespace {

std::int64_t runs_of(const core::Params& params) {
    const std::int64_t each = params.pairs.kind == core::PairKind::zipped ? 1 : params.pairs.width;
    return each > sources_per_run ? (each + sources_per_run - 1) / sources_per_run : 1;
}

}  // namespace

std::size_t residual_backward_workspace(const core::Params& params, const core::Gradients& gradients) {
    if (gradients.q == nullptr) return 0;
    return static_cast<std::size_t>(params.q.total_rows * runs_of(params) * params.dim) * sizeof(float);
}

void backward_residual(const core::Params& params, const core::Gradients& gradients) {
    const std::int64_t numbers = params.q.total_rows * params.dim;
    if (gradients.q == nullptr || numbers == 0) return;
    const CurrentDevice current(params.place.ordinal);
    wake_device(params.place.ordinal);
    const Scratch scratch(params.place.workspace, residual_backward_workspace(params, gradients), params.place.stream);
    ResidualGradientArguments call;
    call.residual = arguments_of(params, nullptr);
    call.gradients = gradients;
    call.runs = runs_of(params);
    call.sums = reinterpret_cast<float*>(scratch.data());
    constexpr int threads = 32 * residual_warps;
    const auto shared = static_cast<int>(residual_warps * params.dim * static_cast<std::int64_t>(sizeof(float)));
    const std::int64_t warps = params.q.total_rows * call.runs;
    launch(residual_gradient_runs_kernel, {(warps + residual_warps - 1) / residual_warps, threads, shared},
           params.place, &call);
    launch(residual_gradient_sum_kernel, {(numbers + threads - 1) / threads, threads}, params.place, &call);
}

void load_residual_kernels(int most_shared_bytes) {
    for (const int nbits : {1, 2, 4, 8}) {
        const ResidualEntries entries = entries_of(nbits);
        for (const ResidualEntry& entry : all_of(entries)) {
            check(cudaFuncSetAttribute(entry.function, cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared_bytes),
                  "loading kernels");
        }
    }
    check(cudaFuncSetAttribute(residual_gradient_runs_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               most_shared_bytes),
          "loading kernels");
    for (const void* kernel : {residual_table_kernel, residual_gradient_sum_kernel}) {
        cudaFuncAttributes loaded{};
        check(cudaFuncGetAttributes(&loaded, kernel), "loading kernels");
    }
}

}  // namespace rowmax::cuda
