// A look at every token of an input: norms, and values that are no numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "io/progress.hpp"
#include "io/token_source.hpp"

namespace rowmax::cli {

struct NormStatistics {
    std::int64_t tokens = 0;  ///< kept ones; hidden tokens are not looked at
    std::int64_t hidden = 0;
    std::int64_t zero = 0;  ///< tokens of norm 0
    std::int64_t nan = 0;   ///< tokens with a NaN
    std::int64_t infinite = 0;
    /// Of the finite tokens.
    double least = 0;
    double mean = 0;
    double largest = 0;
};

NormStatistics token_norms(const io::TokenSource& source, const io::ProgressFn& progress);

/// Lengths of items: how many have at most 0, 1, 2, 4, 8, ... tokens and more than the bound before.
struct LengthHistogram {
    std::int64_t least = 0;
    std::int64_t median = 0;
    std::int64_t largest = 0;
    struct Bin {
        std::int64_t at_most;
        std::int64_t count;
    };
    std::vector<Bin> bins;
};

LengthHistogram item_lengths(const io::TokenSource& source);

}  // namespace rowmax::cli
