// Operators on points: what their kernels are given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/point_backend.hpp"
#include "cuda/kernels/ordered_sums_arguments.hpp"

namespace rowmax::cuda {

inline constexpr int point_threads = 256;
/// Positions whose distances are added one after the other.
inline constexpr int positions_of_run = 256;
/// Coordinates up to which a thread holds its sources in registers.
inline constexpr std::int64_t held_dims = 4;

/// How the rows of a side's storage group into items.
struct PointItems {
    std::int64_t count = 0;
    std::int64_t rows = 0;                 ///< of the storage
    std::int64_t length = 0;               ///< of every item, where there are no
    const std::int64_t* starts = nullptr;  ///< [count + 1], ascending

    [[nodiscard]] constexpr std::int64_t first(std::int64_t item) const {
        return starts == nullptr ? item * length : starts[item];
    }
    [[nodiscard]] constexpr std::int64_t size(std::int64_t item) const {
        return starts == nullptr ? length : starts[item + 1] - starts[item];
    }
    /// The item of a row, -1 for a row of none.
    [[nodiscard]] constexpr std::int64_t item_of(std::int64_t row) const {
        if (starts == nullptr) return core::detail::quotient(row, length);
        if (row < starts[0] || row >= starts[count]) return -1;
        std::int64_t low = 0;
        std::int64_t high = count;
        while (high - low > 1) {  // starts[low] <= row < starts[high]
            const std::int64_t middle = low + (high - low) / 2;
            if (starts[middle] <= row) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return low;
    }
};

/// The points of a side that its mask keeps, as rows of numbers of the type of distances.
struct PointSide {
    PointItems items;
    const void* data = nullptr;               ///< [kept points][pitch]
    std::int64_t pitch = 0;                   ///< in numbers
    const std::int32_t* ranks = nullptr;      ///< [rows + 1]: points kept before each row; null: all are
    const std::int32_t* positions = nullptr;  ///< [kept points]: their rows; null: all are kept

    [[nodiscard]] constexpr bool keeps(std::int64_t row) const {
        return ranks == nullptr || ranks[row + 1] > ranks[row];
    }
    [[nodiscard]] constexpr std::int64_t rank(std::int64_t row) const { return ranks == nullptr ? row : ranks[row]; }
    [[nodiscard]] constexpr std::int64_t row(std::int64_t rank) const {
        return positions == nullptr ? rank : positions[rank];
    }
    /// The kept points of an item: the number of the first, and how many.
    [[nodiscard]] constexpr std::int64_t first(std::int64_t item) const { return rank(items.first(item)); }
    [[nodiscard]] constexpr std::int64_t size(std::int64_t item) const {
        return rank(items.first(item) + items.size(item)) - first(item);
    }
};

/// Tiles of `tile` kept points that never cross items: item i has those from number first(i) / tile + i on, and some of
/// them are empty. So nobody has to count the tiles of items whose sizes only the device knows.
struct PointTile {
    std::int64_t item = 0;
    std::int64_t begin = 0;  ///< in the item
};
constexpr std::int64_t tiles_of(std::int64_t rows, std::int64_t items, std::int64_t tile) {
    return rows / tile + items;
}
template <class Side>
constexpr PointTile tile_at(const Side& side, std::int64_t count, std::int64_t number, std::int64_t tile) {
    std::int64_t low = 0;
    std::int64_t high = count;
    while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        if (side.first(middle) / tile + middle <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return {low, (number - side.first(low) / tile - low) * tile};
}

/// Two jobs of one launch, such as both directions of a search: the first has `first` thread blocks or threads, those
/// that follow are the second's.
template <class Job>
struct Both {
    Job of[2] = {};
    std::int64_t first = 0;

    /// The job of a block or thread, whose number then counts from the job's first.
    [[nodiscard]] constexpr const Job& at(std::int64_t& number) const {
        if (number < first) return of[0];
        number -= first;
        return of[1];
    }
};

struct StraightenArguments {
    core::Segments side;
    std::int64_t* to = nullptr;
};

/// Rows of points, widened; with `ranks` only those that are kept, closed up.
struct GatherArguments {
    core::Segments side;
    DType dtype = DType::f32;
    PointItems items;
    std::int64_t dim = 0;
    std::int64_t pitch = 0;
    int lane_bits = 0;  ///< 2^lane_bits threads a row
    const std::int32_t* ranks = nullptr;
    std::int32_t* positions = nullptr;
    void* to = nullptr;
};

struct MarkArguments {
    core::Segments side;
    std::int32_t* kept = nullptr;  ///< [rows + 1]
};

/// Of an item: the least and the largest coordinates, as integers that keep their order (~ of the least), and whether
/// it holds NaN or infinities. Zeros at first.
struct PointBounds {
    std::uint32_t low[held_dims];
    std::uint32_t high[held_dims];
    std::uint32_t odd;
    std::uint32_t unused[3];
};

/// The nearest kept target of every kept source, of each slice of its item's targets.
struct NearestArguments {
    PointSide sources;
    PointSide targets;
    std::int64_t dim = 0;
    std::int64_t tiles = 0;         ///< of sources
    std::int64_t slices = 1;        ///< of targets
    void* distance = nullptr;       ///< [slices][rows of the sources]
    std::int32_t* index = nullptr;  ///< the same: the target's number among its item's, -1 for none
    /// Items that a tree has searched are left out: those without NaN and infinities. Null: none are.
    const PointBounds* source_bounds = nullptr;
    const PointBounds* target_bounds = nullptr;

    [[nodiscard]] constexpr bool done(std::int64_t item) const {
        return source_bounds != nullptr && source_bounds[item].odd == 0 && target_bounds[item].odd == 0;
    }
};

/// The k nearest.
struct ListArguments {
    PointSide sources;
    PointSide targets;
    std::int64_t dim = 0;
    std::int64_t k = 1;
    void* distance = nullptr;         ///< lists: [k][rows of the sources]
    std::int32_t* numbers = nullptr;  ///< the same
    void* results = nullptr;          ///< [rows of the sources][k]
    std::int64_t* index = nullptr;
    const PointBounds* source_bounds = nullptr;  ///< as above
    const PointBounds* target_bounds = nullptr;

    [[nodiscard]] constexpr bool done(std::int64_t item) const {
        return source_bounds != nullptr && source_bounds[item].odd == 0 && target_bounds[item].odd == 0;
    }
};

/// The nearest of every kept source and, where wanted, of every kept target, as keys: a distance's bits, counted so
/// that NaN comes first, above the number of the other point among its item's. All ones at first, and where none is.
struct PairArguments {
    PointSide sources;
    PointSide targets;
    std::int64_t dim = 0;
    std::int64_t tiles = 0;                    ///< of sources
    std::int64_t slices = 1;                   ///< of targets
    unsigned long long* of_sources = nullptr;  ///< [kept sources]
    unsigned long long* of_targets = nullptr;  ///< [kept targets]; null: not wanted
};
/// The key of the distance 0; from it on they ascend, and that of NaN, 0x7fffffff, is 0.
inline constexpr std::uint32_t first_distance_key = 0x80000001U;
inline constexpr std::uint32_t no_distance_key = 0xffffffffU;

/// Thread blocks that write results: one a run, and one where there is none.
constexpr std::int64_t runs_of_points(const PointItems& items) {
    const std::int64_t runs = tiles_of(items.rows, items.count, positions_of_run);
    return runs > 0 ? runs : 1;
}

/// Results of a direction, and the sums of its distances in runs of 256 positions.
struct WriteNearestArguments {
    NearestArguments found;
    const unsigned long long* keys = nullptr;  ///< where these are given, they hold what was found
    void* distance = nullptr;                  ///< [rows of the sources]; null: not wanted
    std::int64_t* index = nullptr;
    double none = 0;
    double* parts = nullptr;  ///< by number of the run, as tiles are numbered; null: no sums
};
struct ChamferArguments {
    PointSide p;
    PointSide r;
    const double* parts_p = nullptr;
    const double* parts_r = nullptr;  ///< null: one-sided
    bool mean = false;
    void* value = nullptr;
};

/// Choices by the row of their target, among the rows of all targets that are sorted together.
struct NumberChoicesArguments {
    PointItems sources;
    PointItems targets;
    const std::int64_t* index = nullptr;
    std::int64_t k = 1;
    std::int64_t choices = 0;
    std::int64_t first_row = 0;  ///< what the targets' rows count from
    std::int64_t none = 0;       ///< the row of choices of nothing
    std::uint32_t* keys = nullptr;
    std::uint32_t* numbers = nullptr;
};

struct WeighArguments {
    core::Segments side;
    const void* of_item = nullptr;
    bool mean = false;
    void* to = nullptr;  ///< [items]
};

/// One direction's choices as gradients read them.
struct PointChoices {
    const std::int64_t* index = nullptr;  ///< [rows of the sources, k]; null: there are none
    std::int64_t k = 1;
    const void* weight = nullptr;
    const void* of_item = nullptr;
};
struct PointGradientSide {
    PointItems own;
    PointItems other;
    const void* own_rows = nullptr;  ///< [rows][dim]
    const void* other_rows = nullptr;
    PointChoices made;      ///< by points of this side
    PointChoices received;  ///< of points of this side
    void* to = nullptr;
};
struct PointGradientArguments {
    OrderedSums sums;
    Both<PointGradientSide> sides;  ///< their rows, one after the other
    std::int64_t dim = 0;
    bool squared = true;
    DType dtype = DType::f32;
    // The choices that were received, by row:
    const std::int64_t* starts = nullptr;    ///< [rows of both + 1]; null: there are none
    const std::uint32_t* choices = nullptr;  ///< their numbers on the side that made them
};

/// For distances of one type.
struct PointKernels {
    const void* gather = nullptr;
    const void* nearest[2][held_dims + 1] = {};  ///< by metric, and dimensions; 0: any number of them
    const void* pairs[2][2] = {};                ///< by metric, and whether there are more than 256; null: none
    const void* clear_lists = nullptr;
    const void* list[2] = {};
    const void* write_nearest = nullptr;
    const void* chamfer = nullptr;
    const void* weigh = nullptr;
    OrderedSumKernels gradient[3];  ///< one, three, and 16 bytes of coordinates a lane
};
extern const PointKernels point_kernels_f32;
extern const PointKernels point_kernels_f64;

struct PointItemKernels {
    const void* straighten = nullptr;
    const void* mark = nullptr;
    const void* number_choices = nullptr;
};
extern const PointItemKernels point_item_kernels;

/// Sources of a tile.
inline constexpr int held_threads = 128;
inline constexpr int held_sources = 4;
inline constexpr std::int64_t held_tile = std::int64_t{held_threads} * held_sources;
inline constexpr std::int64_t square_tile = 64;
/// Tiles of nearest_pairs.cuh.
inline constexpr int pair_threads = 256;
inline constexpr int pair_rows = 8;  ///< sources of a thread
inline constexpr int pair_columns = 4;
inline constexpr int pair_sources = 16 * pair_rows;
inline constexpr int pair_targets = 16 * pair_columns;
inline constexpr int pair_shared_bytes = 52 * 1024;
/// Targets that are read at once.
inline constexpr int held_targets = 256;

}  // namespace rowmax::cuda
