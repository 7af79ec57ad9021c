// Timing one kernel on one shape, beside the FMA peak measured around every repetition.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rowmax/maxsim.hpp"

namespace rowmax::cli::bench {

struct Shape {
    std::string name;
    std::int64_t queries;
    std::int64_t documents;
    std::int64_t query_length;
    std::int64_t document_length;
    std::int64_t dim;
    [[nodiscard]] double flops() const;
};

/// A short text rerank, a long one, a page of image patches.
const std::vector<Shape>& shapes();

struct Timing {
    double median_ms = 0;
    double p10_ms = 0;
    double p90_ms = 0;
    double gflops = 0;       ///< of the median
    double peak_gflops = 0;  ///< median FMA peak (float32) of the same run, all threads; 0: not known for this CPU
    int repetitions = 0;
};

/// Of `values` in order, the one at this fraction.
double quantile(std::vector<double> values, double q);

/// Repeats for about `seconds`, at least five times. `pause` is called between repetitions and may throw to stop.
/// Throws Error(not_implemented) when the kernel does not take the type.
Timing measure(const Shape& shape, DType dtype, const Options& options, double seconds,
               const std::function<void()>& pause);

}  // namespace rowmax::cli::bench
