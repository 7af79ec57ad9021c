#include "core/scales.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

namespace rowmax::core {

namespace {

std::span<const std::int64_t> shape_of(const TensorView& view, int dimensions) {
    return std::span(view.shape).first(static_cast<std::size_t>(dimensions));
}

void check_shape(const TokenSet& side, const SideNames& names) {
    const TensorView& scale = side.scale;
    const int items = side.tokens.ndim - 2;
    const bool rank_fits = scale.ndim == 0 || scale.ndim == items || scale.ndim == items + 1;
    if (rank_fits && std::ranges::equal(shape_of(scale, scale.ndim), shape_of(side.tokens, scale.ndim))) return;
    throw Error(
        ErrorCode::invalid_value,
        fmt::format(
            "{} {} does not fit {} {}: it must be [{}], one factor a token, [{}], one for the tokens of an item, or []",
            names.scale, scale.shape_text(), names.tokens, side.tokens.shape_text(),
            fmt::join(shape_of(side.tokens, items + 1), ", "), fmt::join(shape_of(side.tokens, items), ", ")));
}

}  // namespace

bool is_quantised(DType dtype) {
    return dtype == DType::i8 || dtype == DType::f8e4m3;
}

void check_scale(const TokenSet& side, const SideNames& names) {
    const bool quantised = is_quantised(side.tokens.dtype);
    if (!side.scale.given()) {
        if (!quantised) return;
        throw Error(ErrorCode::invalid_type, fmt::format("{} is {}, codes that need a scale, and {} is missing",
                                                         names.tokens, name_of(side.tokens.dtype), names.scale));
    }
    if (!quantised) {
        throw Error(ErrorCode::invalid_type, fmt::format("{} goes with int8 or float8_e4m3fn tokens, but {} is {}",
                                                         names.scale, names.tokens, name_of(side.tokens.dtype)));
    }
    check_input(side.scale, names.scale);
    if (side.scale.dtype != DType::f32) {
        throw Error(ErrorCode::invalid_type,
                    fmt::format("{} must be float32, got {}", names.scale, name_of(side.scale.dtype)));
    }
    check_shape(side, names);
}

Scales make_scales(Copies& copies, const TokenSet& side) {
    const TensorView view = aligned_view(copies, side.scale);
    return {static_cast<const float*>(view.data), token_steps(view, side.tokens.ndim - 2)};
}

}  // namespace rowmax::core
