// Running one kernel on a request, with guard bands around everything it writes.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/checks/checks.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::checks {

struct Result {
    std::vector<double> scores;  ///< widened, so equal numbers mean equal bits but for NaN and signed zero
    std::vector<std::int32_t> index;
    std::vector<double> similarity;
    bool intact = true;  ///< nothing was written outside the outputs
    bool high = false;   ///< under precision "high", since the kernel takes no other
};

enum class Wants { scores, everything };

/// Scores `request`, whose arrays lie on the host; throws Error(not_implemented) when the kernel does not take it.
Result run(const ScoreRequest& request, const Target& target, Wants wants = Wants::everything);

/// Equal numbers, or both NaN.
bool same(double a, double b);

}  // namespace rowmax::checks
