// How .npy spells element types: "<f4", "|b1", "<V2".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/array.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::io {

/// A descr taken apart: byte order, kind and bytes per element. size 0: none that is fixed and known.
struct NpyType {
    char order = '|';
    char kind = '\0';
    std::uint64_t size = 0;
};

NpyType parse_npy_descr(std::string_view descr);
StoredType npy_stored_type(std::string_view descr);
/// The type to read with; throws Error(data) for what rowmax cannot read, big-endian numbers among it.
DType npy_dtype(std::string_view descr, std::optional<DType> wanted, const std::string& where);
std::string_view npy_descr(DType dtype);

}  // namespace rowmax::io
