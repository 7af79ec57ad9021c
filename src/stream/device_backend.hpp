// What a search on devices runs on: this build's CUDA backend, or what a test puts in its place.
#pragma once

#include <string_view>

#include "core/device_runtime.hpp"
#include "core/device_topk.hpp"
#include "core/registry.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::stream {

struct DeviceBackend {
    const core::DeviceRuntime* runtime = nullptr;
    const core::DeviceTopK* topk = nullptr;
    void (*score)(const ScoreRequest&, const ScoreOutputs&) = &rowmax::score;
    const core::Kernel& (*choose)(const core::Params&, std::string_view forced) = &core::choose;
};

/// This build's; throws Error(device) where it has none.
const DeviceBackend& device_backend();

}  // namespace rowmax::stream
