// A problem whose arrays lie on the host, with copies of them elsewhere: as on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/params.hpp"

namespace rowmax::core {

/// Copies bytes of the host and says where to; as far from a multiple of 256 as on the host, since kernels look at
/// alignment.
using CopyBytes = std::function<const std::byte*(const std::byte* first, std::size_t bytes)>;

/// Strides stay what they are: a broadcast is copied once.
Segments mirror(const Segments& host, std::int64_t row_bytes, const CopyBytes& copy);
Pairs mirror(const Pairs& host, const CopyBytes& copy);
Params mirror(const Params& host, const CopyBytes& copy);
/// What a problem's tokens are compressed with, where that is scales.
Compressed mirror(const Params& host, const Compressed& compressed, const CopyBytes& copy);

}  // namespace rowmax::core
