// What an index has to be before anybody looks at its contents, and what it may hold.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "core/index_batches.hpp"
#include "core/views.hpp"
#include "rowmax/error.hpp"

namespace rowmax::core {

/// That it is an index, and `n` a number of destinations.
inline void check_index(const TensorView& index, std::int64_t n) {
    check_input(index, "index");
    if (index.dtype != DType::i32 && index.dtype != DType::i64) {
        throw Error(ErrorCode::invalid_type, fmt::format("index must be int32 or int64, got {}", name_of(index.dtype)));
    }
    if (index.ndim < 1) {
        throw Error(ErrorCode::invalid_value, fmt::format("index must be [..., S], got {}", index.shape_text()));
    }
    if (n < 0 || n == std::numeric_limits<std::int64_t>::max()) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("num_destinations must not be negative or the largest int64, got {}", n));
    }
}

/// That every number of every batch is -1 or a destination.
inline void check_destinations(const IndexBatches& batches, std::int64_t n) {
    for (std::int64_t b = 0; b < batches.count(); ++b) {
        const std::int64_t first = batches.first(b);
        for (std::int64_t s = 0; s < batches.sources(); ++s) {
            const std::int64_t value = batches.at(first, s);
            if (value >= -1 && value < n) continue;
            throw Error(
                ErrorCode::invalid_value,
                fmt::format("index holds {} at source {} of batch {}, but num_destinations is {}", value, s, b, n));
        }
    }
}

}  // namespace rowmax::core
