// What every kernel must pass, on every machine: run by the tests and, on users' machines, by `rowmax selftest`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rowmax/maxsim.hpp"

namespace rowmax::checks {

/// What one check of one kernel found.
struct Report {
    std::int64_t cases = 0;             ///< 0: the kernel takes nothing of this check
    std::vector<std::string> failures;  ///< the first few, each naming its case
    std::int64_t failed = 0;

    [[nodiscard]] bool passed() const { return failed == 0; }
    void fail(std::string what);
};

struct Check {
    std::string_view name;
    std::string_view description;
    /// `kernel`: its name; `dtype`: of the tokens. `pause` is called between cases and may throw to stop.
    Report (*run)(std::string_view kernel, DType dtype, const std::function<void()>& pause);
};

/// exact, random, golden, invariance, gradient.
const std::vector<Check>& all_checks();

/// The token types a kernel takes.
std::vector<DType> dtypes_of(std::string_view kernel);

Report check_exact(std::string_view kernel, DType dtype, const std::function<void()>& pause);
Report check_random(std::string_view kernel, DType dtype, const std::function<void()>& pause);
Report check_golden(std::string_view kernel, DType dtype, const std::function<void()>& pause);
Report check_invariance(std::string_view kernel, DType dtype, const std::function<void()>& pause);
Report check_gradient(std::string_view kernel, DType dtype, const std::function<void()>& pause);

}  // namespace rowmax::checks
