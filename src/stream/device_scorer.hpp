// Requests whose arrays lie on the host, scored on a device.
#pragma once

#include <optional>

#include "core/problem.hpp"
#include "core/registry.hpp"
#include "stream/device_arrays.hpp"

namespace rowmax::stream {

/// Runs a row on a problem whose arrays are on the device of `arrays`, and waits for it.
void run_row(DeviceArrays& arrays, const core::Kernel& row, const core::Params& params, const core::Outputs& outputs);

class DeviceScorer {
  public:
    /// What is the same in all calls, and stays on the device.
    enum class Same { queries, queries_and_documents };
    DeviceScorer(const DeviceBackend& backend, int ordinal, Same same)
        : backend_(backend), ordinal_(ordinal), same_(same) {}

    /// Throws Error(not_implemented) unless the device has a kernel for a request of this kind.
    void check(const ScoreRequest& request) const;
    /// Whether it has.
    [[nodiscard]] bool takes(const ScoreRequest& request) const;
    /// rowmax::score(), there.
    void score(const ScoreRequest& request, const ScoreOutputs& outputs);

  private:
    /// A side of a request on the device.
    struct Side {
        DeviceArrays arrays;
        core::Segments segments;
    };
    core::Segments bring(std::optional<Side>& side, bool same, const core::Segments& host, std::int64_t row_bytes);

    const DeviceBackend& backend_;
    int ordinal_;
    Same same_;
    std::optional<Side> q_;
    std::optional<Side> d_;
};

}  // namespace rowmax::stream
