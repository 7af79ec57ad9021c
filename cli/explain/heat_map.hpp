// Similarities as pictures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/explain/colours.hpp"
#include "cli/explain/explanation.hpp"

namespace rowmax::cli::explain {

/// Values to be drawn, row 0 on top and column 0 on the left. NaN is drawn grey.
struct HeatMap {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::vector<double> values;  ///< row-major
    std::vector<bool> marked;    ///< drawn with a frame; empty: none
    std::string caption;         ///< what the picture shows, in a sentence
};

/// Query tokens downwards, document tokens to the right; winners are marked, hidden tokens grey.
HeatMap token_map(const Explanation& pair);

/// Which query token a grid shows; not set: the sum over all kept ones.
using QueryToken = std::optional<std::int64_t>;

struct Grid {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t first = 0;  ///< document token of the top left patch
};

/// "RxC"; throws UsageError.
Grid parse_grid(const std::string& text);

/// An image's patches, row-major: token `first` at the top left. Throws Error(data) when the document has too few
/// tokens.
HeatMap grid_map(const Explanation& pair, const Grid& grid, const QueryToken& token);

/// The least and the largest value that is a finite number.
Scale scale_of(const HeatMap& map);

/// Side of a cell that gives a picture of a good size.
std::int64_t default_cell(const HeatMap& map);

/// A PNG of columns * cell by rows * cell pixels, colours by scale_of(). Throws Error(data) when that is too large.
std::string png_of(const HeatMap& map, std::int64_t cell);

}  // namespace rowmax::cli::explain
