// Conversion between token types, for packing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rowmax/tensor.hpp"

namespace rowmax::io {

/// Converts `count` numbers between float16, bfloat16, float32 and float64, rounding to nearest even. A finite number
/// that does not fit is an Error(invalid_value) that names `where`; NaN and infinities pass.
void convert_row(const std::byte* from, DType from_type, std::byte* to, DType to_type, std::int64_t count,
                 const std::string& where);

}  // namespace rowmax::io
