// C structs, which may hold anything, become the C++ types, which may not.
#pragma once

#include <span>
#include <string_view>

#include "rowmax/maxsim.hpp"
#include "rowmax/rowmax.h"

namespace rowmax::capi {

/// Throws invalid_value when a pointer that must be given is null.
void require(const void* pointer, std::string_view name);

/// A view of all zeros is "not given".
TensorView view_of(const rowmax_view& view, std::string_view name);
/// A null pointer is "not given".
TensorView view_of(const rowmax_view* view, std::string_view name);
/// An output that may be left out: without data it is "not given".
TensorView optional_output(const rowmax_view& view, std::string_view name);
/// A row-major view of at most ROWMAX_MAX_NDIM dimensions.
rowmax_view c_view(void* data, std::int32_t dtype, std::span<const std::int64_t> shape);

ScoreRequest request_of(const rowmax_request* request);
ScoreOutputs outputs_of(const rowmax_outputs* outputs);

}  // namespace rowmax::capi
