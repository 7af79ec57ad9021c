#include "cuda/launch.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cuda/backward.hpp"
#include "cuda/document_tensor.hpp"
#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/kernel_sets.hpp"
#include "cuda/kernels/topk_arguments.hpp"
#include "cuda/load_selection.hpp"
#include "cuda/projected.hpp"
#include "cuda/residual.hpp"
#include "cuda/shared_pairs.hpp"
#include "cuda/tuning.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cuda {

namespace {

constexpr int box_tokens_of_map = 32;

/// Most slots of each of three rings whose tokens do not fill theirs. With more under way they are slower, perhaps
/// since such tokens share lines, which then come twice (measured with d = 48 and 96).
constexpr int many_rings = 3;
constexpr int slots_of_part_filled = 3;

/// Whether the last slot of a token of one or two has less than its 128 bytes.
bool part_filled(TokenType type, std::int64_t dim) {
    const std::int64_t bytes = dim * bytes_of(type);
    return bytes < 2 * slot_row_bytes && bytes % slot_row_bytes != 0;
}

int slots_beside(const KernelEntry& entry, const core::Params& params, int rows) {
    const int beside = copy_engine_reads(params) ? 0 : ninths_bytes_of(entry.type);
    return ring_slots(entry.type, params.dim, rows, entry.control_bytes, entry.rings,
                      device_info(params.place.ordinal).shared_bytes, beside);
}

/// Warpgroups that take turns do so tile by tile, and none of a tile's slots is free before the last one's turn.
int least_slots(const KernelEntry& entry, const core::Params& params) {
    const int dims = slot_dims_of(entry.type);
    return entry.row_step == 0 ? ring_slots_least : static_cast<int>((params.dim + dims - 1) / dims);
}

int rows_for(const KernelEntry& entry, const core::Params& params) {
    if (entry.row_step != 0) {
        int rows = entry.rows;
        while (rows > 2 * entry.row_step && slots_beside(entry, params, rows) < least_slots(entry, params)) {
            rows -= entry.row_step;
        }
        return rows;
    }
    if (entry.least_rows == entry.rows) return entry.rows;
    return block_rows(entry.type, params.dim, padded_rows(params), entry.least_rows, entry.rows, entry.control_bytes,
                      device_info(params.place.ordinal).shared_bytes);
}

Plan plan_for(const KernelEntry& entry, const core::Params& params) {
    return make_plan(params, rows_for(entry, params), device_info(params.place.ordinal).processors, entry.row_step);
}

/// Warpgroups that work on different queries hold rows of their own.
bool own_queries(const core::Params& params, const Plan& plan) {
    return plan.blocks > 1 || query_by_item(params);
}

/// Query rows in shared memory.
int query_rows_held(const KernelEntry& entry, const core::Params& params, const Plan& plan) {
    return own_queries(params, plan) ? entry.rings * plan.rows : plan.rows;
}

/// Slots of each ring; 0 where shared memory is too small.
int slots_for(const KernelEntry& entry, const core::Params& params, const Plan& plan) {
    const int fit = slots_beside(entry, params, query_rows_held(entry, params, plan));
    if (fit < least_slots(entry, params)) return 0;
    const bool limited = copy_engine_reads(params) && entry.rings >= many_rings && entry.type != TokenType::f32;
    return limited && part_filled(entry.type, params.dim) ? std::min(fit, slots_of_part_filled) : fit;
}

/// The smallest kernel that takes all query rows at once, or the largest that fits.
const KernelEntry& entry_for(const KernelSet& kernels, const core::Params& params, bool indexed) {
    const std::int64_t rows = padded_rows(params);
    const KernelEntry* best = nullptr;
    for (int i = 0; i < kernels.count; ++i) {
        const KernelEntry& entry = kernels.entries[i];
        if (entry.indexed != indexed) continue;
        if (entry.normalize == (params.normalize ? NormalizeUse::never : NormalizeUse::only)) continue;
        // Rows of 2 bytes an element always fit.
        const bool large = best != nullptr && bytes_of(entry.type) == 4;
        if (large && slots_for(entry, params, plan_for(entry, params)) == 0) break;
        best = &entry;
        if (entry.rows >= rows) break;
    }
    return *best;
}

struct Choice {
    const KernelEntry* entry = nullptr;
    Plan plan;
};

// Cut documents need the entry that keeps tokens.
Choice choose_entry(const KernelSet& kernels, const core::Params& params, const core::Outputs& outputs) {
    Choice choice;
    choice.entry = &entry_for(kernels, params, outputs.index != nullptr);
    choice.plan = plan_for(*choice.entry, params);
    if (choice.plan.parts > 1 && outputs.index == nullptr) {
        choice.entry = &entry_for(kernels, params, true);
        choice.plan = plan_for(*choice.entry, params);
    }
    return choice;
}

Arguments arguments_of(const core::Params& params, const core::Outputs& outputs, const Plan& plan) {
    Arguments call;
    call.params = params;
    call.outputs = outputs;
    call.plan = plan;
    call.q_by_16 = by_16(params.q);
    call.d_by_16 = by_16(params.d);
    call.row_factors = has_row_factors(params);
    if (params.compressed != nullptr && params.compressed->coding == core::Coding::scaled) {
        call.q_scales = params.compressed->q;
        call.d_scales = params.compressed->d;
    }
    return call;
}

bool normalizes(const KernelSet& kernels) {
    return std::any_of(kernels.entries, kernels.entries + kernels.count,
                       [](const KernelEntry& entry) { return entry.normalize != NormalizeUse::never; });
}

}  // namespace

std::size_t workspace(const KernelSet& kernels, const core::Params& params, const core::Outputs& outputs) {
    const Plan plan = choose_entry(kernels, params, outputs).plan;
    return shared_pairs_bytes(params, plan);
}

void score_tiled(const KernelSet& kernels, const core::Params& params, const core::Outputs& outputs) {
    const CurrentDevice current(params.place.ordinal);
    wake_device(params.place.ordinal);
    const DeviceInfo& device = device_info(params.place.ordinal);
    Choice choice = choose_entry(kernels, params, outputs);
    const KernelEntry& entry = *choice.entry;
    const Scratch scratch(params.place.workspace, workspace(kernels, params, outputs), params.place.stream);
    place_shared_pairs(params, choice.plan, scratch.data());

    TiledArguments arguments;
    arguments.call = arguments_of(params, outputs, choice.plan);
    arguments.call.own_queries = own_queries(params, choice.plan);
    arguments.call.stages = slots_for(entry, params, choice.plan);
    arguments.call.d_by_loads = !copy_engine_reads(params);
    arguments.call.d_shifted = !by_16(params.d);
    if (!arguments.call.d_by_loads) {
        const TensorShape shape = document_tensor(params);
        arguments.tile = tensor_map(shape, tile_tokens_of(entry.type));
        arguments.quarter = tensor_map(shape, box_tokens_of_map);
    }

    LaunchShape launch_shape;
    launch_shape.grid = std::min<std::int64_t>(device.processors, choice.plan.units());
    launch_shape.early = true;
    share_out(arguments.call.plan, launch_shape.grid);
    launch_shape.threads = entry.threads;
    const int slots = entry.rings * arguments.call.stages;
    launch_shape.shared_bytes =
        slots * slot_bytes_of(entry.type) + entry.control_bytes + 1024 +
        query_rows_held(entry, params, choice.plan) * static_cast<int>(query_row_bytes(entry.type, params.dim));
    if (arguments.call.d_by_loads) {
        launch_shape.shared_bytes = (launch_shape.shared_bytes + 15) / 16 * 16 + slots * ninths_bytes_of(entry.type);
    }
    launch(entry.function, launch_shape, params.place, &arguments);
    finish_shared_pairs(arguments.call);
}

void score_portable(const KernelSet& kernels, const core::Params& params, const core::Outputs& outputs) {
    const CurrentDevice current(params.place.ordinal);
    wake_device(params.place.ordinal);
    const DeviceInfo& device = device_info(params.place.ordinal);
    Choice choice = choose_entry(kernels, params, outputs);
    const Scratch scratch(params.place.workspace, workspace(kernels, params, outputs), params.place.stream);
    place_shared_pairs(params, choice.plan, scratch.data());
    const std::int64_t most = std::int64_t{device.processors} * portable_blocks_each;
    const std::int64_t grid = std::min(most, choice.plan.units());
    share_out(choice.plan, grid);
    const Arguments call = arguments_of(params, outputs, choice.plan);
    const KernelEntry& entry = *choice.entry;
    launch(entry.function, {grid, entry.threads, entry.control_bytes}, params.place, &call);
    finish_shared_pairs(call);
}

std::string refuse_tiled(const KernelSet& kernels, const core::Params& params) {
    const DeviceInfo& device = device_info(params.place.ordinal);
    if (device.capability != 90)
        return fmt::format("compute capability 9.0 (device {} has {}.{})", params.place.ordinal, device.capability / 10,
                           device.capability % 10);
    if (params.normalize && !normalizes(kernels)) return "normalize";
    const KernelEntry& entry = entry_for(kernels, params, true);
    const Plan plan = plan_for(entry, params);
    if (slots_for(entry, params, plan) == 0) {
        return fmt::format("d = {} beside {} query rows", params.dim, query_rows_held(entry, params, plan));
    }
    return {};
}

void load_kernels(const DeviceInfo& info) {
    for (const KernelSet& set : portable_sets()) {
        for (int i = 0; i < set.count; ++i) load_kernel(set.entries[i].function, set.entries[i].control_bytes);
    }
    load_kernel(second_pass_kernels.add_groups);
    load_kernel(second_pass_kernels.join_parts);
    load_kernel(merge_chunk_kernel);
    load_backward_kernels();
    load_index_kernels();
    load_point_kernels();
    load_point_tree_kernels();
    load_residual_kernels(info.shared_bytes);
    if (info.capability != 90) return;
    for (const KernelSet& set : tiled_sets()) {
        for (int i = 0; i < set.count; ++i) load_kernel(set.entries[i].function, info.shared_bytes);
    }
    load_projected_kernels(info);
}

}  // namespace rowmax::cuda
