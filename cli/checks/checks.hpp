// What every kernel must pass, on every machine: run by the tests and, on users' machines, by `rowmax selftest`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/registry.hpp"
#include "cpu/sample.hpp"
#include "rowmax/maxsim.hpp"
#include "stream/device_backend.hpp"

namespace rowmax::checks {

/// A kernel, and the device it runs on.
struct Target {
    const core::Kernel* row = nullptr;
    const stream::DeviceBackend* backend = nullptr;  ///< null: the CPU
    int ordinal = 0;
};

/// What one check of one kernel found.
struct Report {
    std::int64_t cases = 0;             ///< 0: the kernel takes nothing of this check
    std::vector<std::string> failures;  ///< the first few, each naming its case
    std::int64_t failed = 0;

    [[nodiscard]] bool passed() const { return failed == 0; }
    void fail(std::string what);
    /// Runs a case and counts it; what the kernel does not take is none.
    void run_case(const std::function<void()>& body);
};

struct Check {
    std::string_view name;
    std::string_view description;
    /// `dtype`: of the tokens. `pause` is called between cases and may throw to stop.
    Report (*run)(const Target& target, DType dtype, const std::function<void()>& pause);
};

/// exact, random, golden, invariance, gradient.
const std::vector<Check>& all_checks();

/// Whether a kernel takes problems of a shape, or goes back through them.
bool takes(const Target& target, const test::Shape& shape, bool backward);
/// The token types a kernel takes.
std::vector<DType> dtypes_of(const Target& target);
/// Whether hidden states may have the type.
bool can_be_hidden(DType dtype);
/// Whether documents must be hidden states, whose tokens the kernel rounds to their type.
bool takes_hidden_states(const Target& target);
/// A shape whose documents have this type, as the kernel takes it: uint8 are residual codes or sign bits.
test::Shape typed(const Target& target, DType dtype, test::Shape shape);
/// `dim`, or one that a kernel takes which takes only more dimensions than most cases have.
std::int64_t dim_for(const Target& target, DType dtype, std::int64_t dim);

Report check_exact(const Target& target, DType dtype, const std::function<void()>& pause);
Report check_random(const Target& target, DType dtype, const std::function<void()>& pause);
Report check_golden(const Target& target, DType dtype, const std::function<void()>& pause);
Report check_invariance(const Target& target, DType dtype, const std::function<void()>& pause);
Report check_gradient(const Target& target, DType dtype, const std::function<void()>& pause);

}  // namespace rowmax::checks
