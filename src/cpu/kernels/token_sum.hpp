// The sum over query tokens, in an order that depends on positions only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rowmax::cpu {

/// Positions that are added as one tree; the sums of such groups are added in order.
inline constexpr std::int64_t token_group = 16;

/// Adds `count` (at most 16) similarities as a tree: distance 8, 4, 2, 1. Missing ones count as 0.
template <class Value>
double group_sum(const Value* similarity, std::int64_t count) {
    double sum[token_group] = {};
    for (std::int64_t i = 0; i < count; ++i) sum[i] = double{similarity[i]};
    for (std::int64_t distance = token_group / 2; distance > 0; distance /= 2) {
        for (std::int64_t i = 0; i < distance; ++i) sum[i] += sum[i + distance];
    }
    return sum[0];
}

/// total + the groups of `count` similarities, whose first is at a multiple of 16.
template <class Value>
double add_groups(double total, const Value* similarity, std::int64_t count) {
    for (std::int64_t s = 0; s < count; s += token_group) {
        total += group_sum(similarity + s, std::min(token_group, count - s));
    }
    return total;
}

}  // namespace rowmax::cpu
