// Devices for tests on machines without any: their memory is the host's, kernels are the CPU's. Their streams are as
// late as they may be: work runs when somebody waits for it, so that whoever forgets to wait computes with what is not
// there yet, or writes over what is still to be read.
#pragma once

#include <cstddef>

#include "stream/device_backend.hpp"

namespace rowmax::test {

struct FakeDeviceUse {
    std::size_t device = 0;  ///< bytes taken now, of all devices
    std::size_t device_peak = 0;
    std::size_t pinned = 0;
    std::size_t pinned_peak = 0;
    int streams = 0;
    int events = 0;
    std::size_t copied = 0;  ///< bytes copied between host and devices
};

inline constexpr int fake_devices = 3;

const stream::DeviceBackend& fake_backend();
FakeDeviceUse& fake_use();
/// Memory of a device is refused beyond this; 0: there is no end.
void limit_fake_memory(std::size_t bytes);

}  // namespace rowmax::test
