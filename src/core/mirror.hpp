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
/// What a problem's tokens are compressed with, copied to `place`; null where they are not.
const Compressed* mirror_compressed(const Params& host, Compressed& place, const CopyBytes& copy);
/// `place`: for what tokens are compressed with; lives as long as what is returned.
Params mirror(const Params& host, Compressed& place, const CopyBytes& copy);

/// Bytes of a token.
std::int64_t query_row_bytes(const Params& params);
std::int64_t document_row_bytes(const Params& params);

}  // namespace rowmax::core
