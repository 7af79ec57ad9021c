// Running one kernel on a request, with guard bands around everything it writes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rowmax/maxsim.hpp"

namespace rowmax::checks {

struct Result {
    std::vector<double> scores;  ///< widened, so equal numbers mean equal bits but for NaN and signed zero
    std::vector<std::int32_t> index;
    std::vector<double> similarity;
    bool intact = true;  ///< nothing was written outside the outputs
};

enum class Wants { scores, everything };

/// Scores `request` with the kernel of this name; throws Error(not_implemented) when it does not take it.
Result run(ScoreRequest request, std::string_view kernel, Wants wants = Wants::everything);

/// Equal numbers, or both NaN.
bool same(double a, double b);

}  // namespace rowmax::checks
