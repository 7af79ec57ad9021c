// Timing kernels of a CUDA device, beside a copy within its memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench/measure.hpp"
#include "core/registry.hpp"
#include "stream/device_backend.hpp"

namespace rowmax::cli::bench {

struct DeviceTiming {
    std::int64_t documents = 0;  ///< more than the shape's, whose work would be over too soon
    double median_ms = 0;        ///< of a call, in a queue of calls
    double p10_ms = 0;
    double p90_ms = 0;
    double documents_per_s = 0;  ///< these of the median
    double tb_per_s = 0;         ///< bytes of the documents
    double tflops = 0;
    double copy_tb_per_s = 0;  ///< median of copies between the repetitions: bytes read and bytes written
    int repetitions = 0;
};

/// One shape's arrays on a device, and calls of its kernels with them.
class DeviceBench {
  public:
    DeviceBench(const Shape& shape, DType dtype, const stream::DeviceBackend& backend, int ordinal);
    ~DeviceBench();
    DeviceBench(const DeviceBench&) = delete;
    DeviceBench& operator=(const DeviceBench&) = delete;

    /// The kernel that a call takes; forced when named. Throws Error(not_implemented) when none takes it.
    [[nodiscard]] const core::Kernel& chosen(const std::string& forced) const;
    [[nodiscard]] bool takes(const core::Kernel& row) const;
    /// Repeats for about `seconds`, at least five times. `pause` is called between repetitions and may throw to stop.
    DeviceTiming measure(const core::Kernel& row, double seconds, const std::function<void()>& pause);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace rowmax::cli::bench
