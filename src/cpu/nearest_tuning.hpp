// How nearest points are looked for, and in what portions: constexpr functions of the sizes.
#pragma once

#include <cstdint>

namespace rowmax::cpu {

/// Whether a tree over `targets` pays for `sources` that look for their `k` nearest. Measured on uniform points and one
/// core of a Zen 5: a tree is built in 0.15 us a point and found through in 0.2 us and more, the more the higher the
/// dimension; a pair costs 0.07 ns in three dimensions, and several times that where lists are kept (k > 1).
constexpr bool tree_pays(std::int64_t sources, std::int64_t targets, std::int64_t dim, std::int64_t k) {
    constexpr std::int64_t most_dims = 10;
    constexpr std::int64_t most_cheap_dims = 8;
    if (dim > most_dims || k > targets / 64 || sources < (k > 1 ? 512 : 3072)) return false;
    if (dim > most_cheap_dims) return targets >= 16384 * (dim - 7);
    const std::int64_t least_targets = 4096 + 1536 * (dim > 2 ? dim - 2 : 0);
    return targets >= (k > 1 ? least_targets / 3 : least_targets);
}

/// Panels that one task takes: their sources stay in L2 while targets stream past.
constexpr std::int64_t panels_of_task(std::int64_t dim, std::int64_t value_bytes, std::int64_t panel_lanes) {
    constexpr std::int64_t bytes = 256 * 1024;
    constexpr std::int64_t most = 8;
    const std::int64_t fitting = bytes / (dim * value_bytes * panel_lanes);
    return fitting < 1 ? 1 : (fitting > most ? most : fitting);
}

/// Targets that all panels of a task see before the next: half of a 32 KiB L1.
constexpr std::int64_t targets_of_block(std::int64_t dim, std::int64_t value_bytes) {
    constexpr std::int64_t bytes = 16 * 1024;
    constexpr std::int64_t least = 8;
    const std::int64_t fitting = bytes / (dim * value_bytes);
    return fitting < least ? least : fitting;
}

/// The same where both directions are folded: what is kept of each target, a vector of distances and one of numbers,
/// stays in L1 too.
inline constexpr std::int64_t most_column_targets = 128;

/// Leaves of sources that one task looks up in a tree.
inline constexpr std::int64_t leaves_of_task = 16;
/// Points of a range that is worth splitting by several threads.
inline constexpr std::int64_t least_shared_range = 8192;
/// Pairs times coordinates that are worth waking a thread for.
inline constexpr double terms_per_thread = 1e6;
/// Runs of sources of one gradient row from which on threads share them.
inline constexpr std::int64_t least_shared_runs = 16;

}  // namespace rowmax::cpu
