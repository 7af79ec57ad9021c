#include "cuda/shared_pairs.hpp"

#include <cstdint>

#include "cuda/kernel_launch.hpp"
#include "cuda/kernels/kernel_sets.hpp"

namespace rowmax::cuda {

namespace {

constexpr int second_block_threads = 128;

std::size_t group_bytes(const core::Params& params, const Plan& plan) {
    if (plan.parts > 1 || plan.blocks_per_query == 1) return 0;
    return static_cast<std::size_t>(params.pairs.count) * static_cast<std::size_t>(plan.groups) * sizeof(float);
}

std::size_t part_values(const core::Params& params, const Plan& plan) {
    if (plan.parts == 1) return 0;
    return static_cast<std::size_t>(params.pairs.count * plan.parts * params.q.max_length);
}

std::size_t part_bytes(const core::Params& params, const Plan& plan) {
    const std::size_t values = part_values(params, plan);
    const std::size_t factors = has_row_factors(params) ? values / static_cast<std::size_t>(plan.parts) : 0;
    return values * (sizeof(float) + sizeof(std::int32_t)) + factors * sizeof(float);
}

}  // namespace

bool has_row_factors(const core::Params& params) {
    return params.normalize || (params.compressed != nullptr && params.compressed->coding == core::Coding::scaled);
}

std::size_t shared_pairs_bytes(const core::Params& params, const Plan& plan) {
    return group_bytes(params, plan) + part_bytes(params, plan);
}

void place_shared_pairs(const core::Params& params, Plan& plan, std::byte* memory) {
    const std::size_t values = part_values(params, plan);
    plan.group_sums = reinterpret_cast<float*>(memory);
    plan.part_maxima = reinterpret_cast<float*>(memory);
    plan.part_index = reinterpret_cast<std::int32_t*>(memory) + values;
    plan.row_factors = reinterpret_cast<float*>(memory) + 2 * values;
}

void finish_shared_pairs(const Arguments& call) {
    const core::Params& params = call.params;
    const std::int64_t threads = params.pairs.count * (call.plan.parts > 1 ? 32 : 1);
    const LaunchShape shape{(threads + second_block_threads - 1) / second_block_threads, second_block_threads, 0};
    if (call.plan.parts > 1) {
        launch(second_pass_kernels.join_parts, shape, params.place, &call);
    } else if (call.plan.blocks_per_query > 1) {
        launch(second_pass_kernels.add_groups, shape, params.place, &call);
    }
}

}  // namespace rowmax::cuda
