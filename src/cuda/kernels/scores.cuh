// From the maxima of rows to what the caller asked for.
#pragma once

#include <cstdint>

#include "cuda/kernels/arguments.hpp"
#include "cuda/kernels/maximum.cuh"

namespace rowmax::cuda {

/// Where what is kept of one row goes: worked out once for the rows of a block. Packed, since a thread holds several.
struct RowPlace {
    std::int64_t code = 0;
    [[nodiscard]] __device__ __forceinline__ bool kept() const { return (code & 1) != 0; }
    [[nodiscard]] __device__ __forceinline__ bool in_query() const { return (code & 2) != 0; }
    /// Its query has tokens beyond the longest that the caller announced: they have no rows.
    [[nodiscard]] __device__ __forceinline__ bool cut_short() const { return (code & 4) != 0; }
    /// Of unit item 0, in elements of the index.
    [[nodiscard]] __device__ __forceinline__ std::int64_t first() const { return code >> 3; }
    /// What the row adds to its query's score, which is NaN rather than a sum over some of the tokens.
    [[nodiscard]] __device__ __forceinline__ float adds(float maximum, bool seen) const {
        if (cut_short()) return not_a_number;
        return seen && kept() ? maximum : 0.0F;
    }
};

__device__ __forceinline__ RowPlace place_of(const Arguments& call, const Unit& unit, const Row& row) {
    const std::int64_t pair = pair_of(call.params, call.plan, unit, row.query) - unit.item;
    const std::int64_t first = pair * call.params.q.max_length + row.position;
    const bool cut_short = row.segment.length > call.params.q.max_length;
    return {first * 8 + (cut_short ? 4 : 0) + (row.in_query ? 2 : 0) + (row.kept ? 1 : 0)};
}

/// The part's maximum where documents are cut, else index and similarity where wanted. `factor`: one over the query
/// token's norm or its scale, by which `maximum` was not multiplied yet. Parts are compared as they are, like tokens:
/// rounding can make equal products of different similarities.
template <bool Indexed>
__device__ __forceinline__ void write_row(const Arguments& call, const Unit& unit, const RowPlace& place,
                                          const Maximum<Indexed>& maximum, float factor, bool seen) {
    if (!place.in_query()) return;
    const std::int64_t length = call.params.q.max_length;
    const std::int64_t at = place.first() + unit.item * length;
    if constexpr (Indexed) {
        if (call.plan.parts > 1) {
            const std::int64_t pair = at / length;
            const std::int64_t to = (pair * call.plan.parts + unit.part) * length + (at - pair * length);
            call.plan.part_maxima[to] = maximum.value;
            call.plan.part_index[to] = maximum.token;
            if (call.row_factors && unit.part == 0) call.plan.row_factors[at] = factor;
            return;
        }
    }
    const bool counts = place.kept() && seen;
    if constexpr (Indexed) {
        if (call.outputs.index != nullptr) call.outputs.write_index(at, counts ? maximum.token : -1);
    }
    if (call.outputs.similarity != nullptr) {
        static_cast<float*>(call.outputs.similarity)[at] = counts ? maximum.value * factor : 0.0F;
    }
}

/// True where write_row has something to do.
template <bool Indexed>
__device__ __forceinline__ bool rows_wanted(const Arguments& call) {
    return call.outputs.similarity != nullptr || (Indexed && (call.plan.parts > 1 || call.outputs.index != nullptr));
}

/// Sums of octs, in shared memory, to scores; to sums of groups where the query goes on in other blocks. By one warp.
__device__ __forceinline__ void write_scores(const Arguments& call, const Unit& unit, const float* octs) {
    const Plan& plan = call.plan;
    if (plan.parts > 1) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const auto group = [&](int oct, int last) { return octs[oct] + (oct + 1 < last ? octs[oct + 1] : 0.0F); };
    if (plan.blocks_per_query > 1) {
        const std::int64_t query = query_of(call.params, plan, unit, 0);
        const std::int64_t pair = pair_of(call.params, plan, unit, query);
        const int first = first_position(call.params, plan, unit) / rows_of_group;
        for (int g = lane; g < plan.rows / rows_of_group && first + g < plan.groups; g += 32) {
            plan.group_sums[pair * plan.groups + first + g] = group(2 * g, plan.octs_per_query);
        }
        return;
    }
    for (int slot = lane; slot < plan.queries_per_block; slot += 32) {
        const std::int64_t query = query_of(call.params, plan, unit, slot);
        if (query >= call.params.q.count) return;
        const int begin = slot * plan.octs_per_query;
        double total = 0;
        for (int oct = begin; oct < begin + plan.octs_per_query; oct += 2) {
            total += static_cast<double>(group(oct, begin + plan.octs_per_query));
        }
        static_cast<float*>(call.outputs.scores)[pair_of(call.params, plan, unit, query)] = static_cast<float>(total);
    }
}

}  // namespace rowmax::cuda
