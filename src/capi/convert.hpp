// C structs, which may hold anything, become the C++ types, which may not.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "rowmax/error.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/rowmax.h"

namespace rowmax::capi {

/// Throws invalid_value when a pointer that must be given is null.
void require(const void* pointer, std::string_view name);

/// No struct of any version is larger.
inline constexpr std::size_t most_struct_size = std::size_t{64} * 1024;

/// A caller's struct in this library's form. Structs grow at their end, and zero is what an older caller would have
/// meant: what a caller of an older header lacks is zero, and what one of a newer header has beyond must be.
template <class Struct>
Struct known_form(const Struct& given, std::size_t first_size, std::string_view name) {
    const std::size_t size = given.size;
    if (size < first_size || size > most_struct_size) {
        throw Error(ErrorCode::invalid_value,
                    fmt::format("{0}.size is {1}, but this library knows {2} bytes: start from rowmax_{0}_init()", name,
                                size, sizeof(Struct)));
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(&given);
    for (std::size_t i = sizeof(Struct); i < size; ++i) {
        if (bytes[i] == std::byte{}) continue;
        throw Error(
            ErrorCode::not_implemented,
            fmt::format("{}: byte {} is set, but this library, an older one, knows {}", name, i, sizeof(Struct)));
    }
    Struct known{};
    std::memcpy(&known, &given, std::min(size, sizeof(Struct)));
    return known;
}

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
