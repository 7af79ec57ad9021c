// Results are written while inputs are read, by several threads: they must not share memory.
#pragma once

#include <span>
#include <string_view>

#include "rowmax/maxsim.hpp"

namespace rowmax::core {

struct NamedView {
    std::string_view name;
    const TensorView& view;
};

/// Throws Error(invalid_value) that names both when an output and an input, or two outputs, share memory. Of a view
/// with gaps the gaps count as its own. Views that are not given share nothing.
void check_disjoint(std::span<const NamedView> outputs, std::span<const NamedView> inputs);

/// Outputs against everything that a request reads.
void check_disjoint(std::span<const NamedView> outputs, const ScoreRequest& request);

}  // namespace rowmax::core
