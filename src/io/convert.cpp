#include "io/convert.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/element.hpp"
#include "rowmax/error.hpp"

namespace rowmax::io {

namespace {

void check_type(DType dtype) {
    if (dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64) return;
    throw Error(ErrorCode::invalid_type, fmt::format("tokens: {} cannot be converted", name_of(dtype)));
}

}  // namespace

void convert_row(const std::byte* from, DType from_type, std::byte* to, DType to_type, std::int64_t count,
                 const std::string& where) {
    check_type(from_type);
    check_type(to_type);
    const std::size_t from_size = size_of(from_type);
    const std::size_t to_size = size_of(to_type);
    for (std::int64_t i = 0; i < count; ++i, from += from_size, to += to_size) {
        const double value = core::read_element(from, from_type);
        core::write_element(to, to_type, value);
        if (std::isfinite(core::read_element(to, to_type)) || !std::isfinite(value)) continue;
        throw Error(ErrorCode::invalid_value,
                    fmt::format("{}: {} does not fit {}; keep a wider type", where, value, name_of(to_type)));
    }
}

}  // namespace rowmax::io
