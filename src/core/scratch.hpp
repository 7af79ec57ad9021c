// Scratch memory of calls on a device.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "core/params.hpp"
#include "rowmax/error.hpp"
#include "rowmax/maxsim.hpp"

namespace rowmax::core {

/// `bytes` of scratch memory from the caller, where it hands any out; else the backend takes them from a pool of
/// its own.
inline void place_workspace(Place& place, const Device& device, std::size_t bytes, std::string_view name) {
    if (device.allocate == nullptr || (bytes == 0 && !device.always_asks)) return;
    place.workspace = device.allocate(device.context, bytes);
    if (place.workspace != nullptr || bytes == 0) return;
    throw Error(ErrorCode::out_of_memory, fmt::format("no {} bytes of scratch memory for {}", bytes, name));
}

/// The same for a call of a backend that says how much it wants: `workspace` null for none.
template <class... Arguments>
void place_workspace(Place& place, const Device& device, std::size_t (*workspace)(const Arguments&...),
                     std::string_view name, const std::type_identity_t<Arguments>&... arguments) {
    if (device.allocate == nullptr) return;
    place_workspace(place, device, workspace == nullptr ? 0 : workspace(arguments...), name);
}

inline Place place_of(const Device& device) {
    return {device.kind == Device::Kind::cuda, device.ordinal, device.stream, nullptr};
}

}  // namespace rowmax::core
