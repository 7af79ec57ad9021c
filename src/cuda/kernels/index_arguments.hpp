// Operators on an index: what their kernels are given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/index_batches.hpp"
#include "cuda/kernels/ordered_sums_arguments.hpp"

namespace rowmax::cuda {

inline constexpr int index_threads = 256;

/// Sources of all batches by their destination: batch b's destination d has the key b (n + 1) + d, and the key behind
/// these is of sources that are dropped.
struct IndexKeys {
    std::uint32_t* keys = nullptr;
    std::uint32_t* numbers = nullptr;  ///< b S + s
    std::int64_t batches = 0;
    std::int64_t sources = 0;       ///< S
    std::int64_t destinations = 0;  ///< n

    [[nodiscard]] constexpr std::int64_t count() const { return batches * sources; }
    [[nodiscard]] constexpr std::int64_t starts() const { return batches * (destinations + 1); }
};

struct NumberIndexArguments {
    core::IndexBatches index;
    IndexKeys to;
};

struct CheckIndexArguments {
    core::IndexBatches index;
    std::int64_t destinations = 0;
    unsigned long long* bad =
        nullptr;  ///< the first source b S + s whose destination is none; all ones: no such source
};

struct WriteGridArguments {
    IndexKeys sorted;
    std::int64_t* row_ptr = nullptr;  ///< [batches, n + 1]
    std::int64_t* source = nullptr;   ///< [batches, S]; null: not wanted
};

struct CheckGridArguments {
    core::IndexBatches index;
    std::int64_t destinations = 0;
    const std::int64_t* row_ptr = nullptr;
    const std::int64_t* source = nullptr;
    const std::int64_t* expected = nullptr;  ///< row_ptr of the index
    unsigned long long* bad = nullptr;       ///< the first batch whose grid is another
};

struct ScatterArguments {
    OrderedSums sums;
    const void* values = nullptr;
    core::BatchSteps steps;
    std::int64_t stride = 0;  ///< from source to source, in elements
    const std::int64_t* row_ptr = nullptr;
    const std::int64_t* source = nullptr;    ///< a caller's grid
    const std::uint32_t* numbers = nullptr;  ///< or sorted here: b S + s
    void* out = nullptr;
    std::int64_t sources = 0;
    std::int64_t destinations = 0;
};

/// Sums by atomic additions.
struct AtomicScatterArguments {
    core::IndexBatches index;
    const void* values = nullptr;
    core::BatchSteps steps = {};
    std::int64_t stride = 0;  ///< from source to source, in elements
    std::int64_t destinations = 0;
    std::int64_t channels = 1;
    int lane_bits = 0;     ///< 2^lane_bits neighbouring threads share a source's channels
    void* sums = nullptr;  ///< [batches, destinations, channels], zeros at first
};

struct RoundSumsArguments {
    const void* sums = nullptr;
    void* out = nullptr;
    std::int64_t count = 0;
};

struct IndexKernels {
    const void* number = nullptr;
    const void* check = nullptr;
    const void* write_starts = nullptr;
    const void* write_sources = nullptr;
    const void* check_grid = nullptr;
};
extern const IndexKernels index_kernels;

}  // namespace rowmax::cuda
