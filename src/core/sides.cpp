#include "core/sides.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rowmax::core {

namespace {

/// Lengths without offsets belong to dense items, unless there is one item only.
bool is_ranges(const TokenSet& side) {
    return side.offsets.given() || (side.lengths.given() && side.tokens.ndim == 2);
}

constexpr std::int64_t max_document_tokens = (std::int64_t{1} << 31) - 1;

[[noreturn]] void fail(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

// A 1 in front serves every item; anything else must match exactly. `skipped`: dimensions that the tokens have not.
bool mask_fits(const TensorView& mask, const TensorView& tokens, int skipped) {
    const int items = tokens.ndim - 2;  // leading dimensions
    bool leading = true;
    for (int i = 0; i <= items; ++i) {
        const std::int64_t have = mask.shape[i + skipped];
        leading = leading && have == 1;
        const bool broadcast = leading && i < items;
        if (!broadcast && have != tokens.shape[i]) return false;
    }
    return true;
}

Mask dense_mask(Copies& copies, const TokenSet& side, const SideNames& names) {
    check_input(side.mask, names.mask);
    const TensorView& tokens = side.tokens;
    const TensorView mask = aligned_view(copies, side.mask);
    const int items = tokens.ndim - 2;
    const int skipped = mask.ndim - 1 - items;
    const bool rank_fits = skipped == 0 || (items == 0 && skipped == 1 && mask.shape[0] == 1);
    if (!rank_fits || !mask_fits(mask, tokens, skipped)) {
        fail(ErrorCode::invalid_value,
             fmt::format("{} {} does not fit {} {}: it needs one value a {}, with a leading 1 to serve every item",
                         names.mask, mask.shape_text(), names.tokens, tokens.shape_text(), names.token));
    }
    const auto step = [&](int i) { return i < items ? mask.stride[i + skipped] : 0; };
    return {mask.data, mask.dtype, step(0), step(1), mask.stride[mask.ndim - 1]};
}

/// Lengths of dense items, one behind the other.
IntList lengths_of(Copies& copies, const TokenSet& side, const SideNames& names) {
    const TensorView& tokens = side.tokens;
    const int items = tokens.ndim - 2;
    check_input(side.lengths, names.lengths);
    const bool fits = side.lengths.ndim == items &&
                      std::equal(tokens.shape.begin(), tokens.shape.begin() + items, side.lengths.shape.begin());
    if (!fits) {
        fail(ErrorCode::invalid_value, fmt::format("{} {} does not fit {} {}: one length an item", names.lengths,
                                                   side.lengths.shape_text(), names.tokens, tokens.shape_text()));
    }
    TensorView flat(side.lengths.data, side.lengths.dtype, {side.lengths.numel()});
    if (!side.lengths.contiguous()) flat = contiguous_copy(copies, side.lengths);
    return int_list(copies, flat, names.lengths);
}

/// `lengths` where the host can read them.
void check_lengths(const IntList& lengths, const TokenSet& side, const SideNames& names) {
    const std::int64_t most = side.tokens.shape[side.tokens.ndim - 2];
    for (std::int64_t i = 0; i < lengths.count; ++i) {
        const std::int64_t length = detail::read_int(lengths.data, lengths.wide, i);
        if (length >= 0 && length <= most) continue;
        fail(ErrorCode::invalid_value, fmt::format("{}[{}] is {}, but {} {} hold {} tokens an item", names.lengths, i,
                                                   length, names.tokens, side.tokens.shape_text(), most));
    }
}

// Tokens beyond their item's length are hidden like any others.
Mask mask_of_lengths(Copies& copies, const TokenSet& side, const IntList& lengths) {
    const TensorView& tokens = side.tokens;
    const int items = tokens.ndim - 2;
    const std::int64_t most = tokens.shape[items];
    auto* kept = new std::byte[static_cast<std::size_t>(lengths.count * most)];
    copies.held.emplace_back(kept);
    for (std::int64_t i = 0; i < lengths.count; ++i) {
        const std::int64_t count = detail::clamp(detail::read_int(lengths.data, lengths.wide, i), 0, most);
        std::fill_n(std::fill_n(kept + i * most, count, std::byte{1}), most - count, std::byte{0});
    }
    return {kept, DType::boolean, items > 1 ? tokens.shape[1] * most : most, items > 1 ? most : 0, 1};
}

// On a device the lengths are read there.
void hide_beyond_lengths(Copies& copies, const TokenSet& side, const SideNames& names, bool validate, Segments& s) {
    const IntList lengths = lengths_of(copies, side, names);
    if (validate) check_lengths(on_host(copies, lengths), side, names);
    if (!copies.on_device) {
        s.mask = mask_of_lengths(copies, side, lengths);
        return;
    }
    s.lengths = lengths.data;
    s.wide_lengths = lengths.wide;
}

Segments dense(Copies& copies, const TokenSet& side, const SideNames& names, bool validate) {
    const TensorView view = readable(copies, side.tokens);
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    const int rank = view.ndim;
    Segments s;
    s.data = static_cast<const std::byte*>(view.data);
    s.row_stride = view.stride[rank - 2] * size;
    s.length = view.shape[rank - 2];
    s.max_length = s.length;
    s.inner = rank == 4 ? view.shape[1] : 1;
    s.count = rank == 2 ? 1 : checked_product(view.shape[0], s.inner, names.items);
    s.stride_outer = rank == 2 ? 0 : view.stride[0] * size;
    s.stride_inner = rank == 4 ? view.stride[1] * size : 0;
    s.total_rows = s.count * s.length;
    if (side.mask.given()) s.mask = dense_mask(copies, side, names);
    if (side.lengths.given()) hide_beyond_lengths(copies, side, names, validate, s);
    return s;
}

void check_offsets(const IntList& list, std::int64_t rows, const SideNames& names) {
    const auto at = [&](std::int64_t i) { return detail::read_int(list.data, list.wide, i); };
    if (at(0) != 0) fail(ErrorCode::invalid_value, fmt::format("{}[0] must be 0, got {}", names.cu_seqlens, at(0)));
    for (std::int64_t i = 1; i < list.count; ++i) {
        if (at(i) < at(i - 1)) {
            fail(ErrorCode::invalid_value,
                 fmt::format("{} decreases at {}: {} after {}", names.cu_seqlens, i, at(i), at(i - 1)));
        }
    }
    if (at(list.count - 1) > rows) {
        fail(ErrorCode::invalid_value, fmt::format("{} ends at {}, but {} holds {} {}s", names.cu_seqlens,
                                                   at(list.count - 1), names.tokens, rows, names.token));
    }
}

std::int64_t longest(const Segments& s) {
    std::int64_t length = 0;
    for (std::int64_t i = 0; i < s.count; ++i) length = std::max(length, s.at(i).length);
    return length;
}

Segments packed_storage(Copies& copies, const TokenSet& side) {
    const TensorView view = readable(copies, side.tokens);
    Segments s;
    s.data = static_cast<const std::byte*>(view.data);
    s.row_stride = view.stride[0] * static_cast<std::int64_t>(size_of(view.dtype));
    s.total_rows = view.shape[0];
    return s;
}

Segments packed(Copies& copies, const TokenSet& side, const SideNames& names, bool validate) {
    const IntList offsets = int_list(copies, side.cu_seqlens, names.cu_seqlens);
    if (offsets.count < 1)
        fail(ErrorCode::invalid_value,
             fmt::format("{} is empty: it needs one offset more than items", names.cu_seqlens));
    Segments s = packed_storage(copies, side);
    s.kind = SegmentKind::offsets;
    s.count = offsets.count - 1;
    s.starts = offsets.data;
    s.wide_starts = offsets.wide;
    if (copies.on_device && !validate) {
        s.max_length = side.max_seqlen >= 0 ? side.max_seqlen : s.total_rows;
        return s;
    }
    const IntList seen = on_host(copies, offsets);
    if (validate) check_offsets(seen, s.total_rows, names);
    Segments readable_here = s;
    readable_here.starts = seen.data;
    s.max_length = longest(readable_here);
    if (side.max_seqlen >= 0 && side.max_seqlen < s.max_length) {
        fail(ErrorCode::invalid_value, fmt::format("{} is {}, but {} holds an item of {} tokens", names.max_seqlen,
                                                   side.max_seqlen, names.cu_seqlens, s.max_length));
    }
    s.max_length = std::max(s.max_length, side.max_seqlen);
    return s;
}

// `s` where the host can read its offsets and lengths.
void check_ranges(const Segments& s) {
    for (std::int64_t i = 0; i < s.count; ++i) {
        const std::int64_t first = detail::read_int(s.starts, s.wide_starts, i);
        const std::int64_t length = detail::read_int(s.lengths, s.wide_lengths, i);
        if (first >= 0 && length >= 0 && first <= s.total_rows && length <= s.total_rows - first) continue;
        fail(ErrorCode::invalid_value,
             fmt::format("offsets[{}] = {} and lengths[{}] = {} leave the storage of {} tokens", i, first, i, length,
                         s.total_rows));
    }
}

Segments ranges(Copies& copies, const TokenSet& side, bool validate) {
    const IntList starts = int_list(copies, side.offsets, "offsets");
    const IntList lengths = int_list(copies, side.lengths, "lengths");
    if (starts.count != lengths.count) {
        fail(ErrorCode::invalid_value,
             fmt::format("offsets and lengths differ in length: {} and {}", starts.count, lengths.count));
    }
    Segments s = packed_storage(copies, side);
    s.kind = SegmentKind::ranges;
    s.count = starts.count;
    s.starts = starts.data;
    s.wide_starts = starts.wide;
    s.lengths = lengths.data;
    s.wide_lengths = lengths.wide;
    if (copies.on_device && !validate) {
        s.max_length = s.total_rows;
        return s;
    }
    Segments readable_here = s;
    readable_here.starts = on_host(copies, starts).data;
    readable_here.lengths = on_host(copies, lengths).data;
    if (validate) check_ranges(readable_here);
    s.max_length = longest(readable_here);
    return s;
}

}  // namespace

bool single_item(const TokenSet& side) {
    return side.tokens.ndim == 2 && !side.cu_seqlens.given() && !side.offsets.given();
}

void check_token_dtype(const TokenSet& side, const SideNames& names) {
    check_input(side.tokens, names.tokens);
    switch (side.tokens.dtype) {
        case DType::i8:
        case DType::f8e4m3:
        case DType::f16:
        case DType::bf16:
        case DType::f32:
        case DType::f64: return;
        case DType::u8:
            if (side.sign_bits > 0) return;
            break;
        default: break;
    }
    fail(ErrorCode::invalid_type,
         fmt::format("{} must be float16, bfloat16, float32, float64, or int8 or float8_e4m3fn with a scale, got {}",
                     names.tokens, name_of(side.tokens.dtype)));
}

void check_layout(const TokenSet& side, const SideNames& names) {
    const int rank = side.tokens.ndim;
    const bool is_packed = side.cu_seqlens.given();
    const bool in_ranges = is_ranges(side);
    if (is_packed && (in_ranges || side.lengths.given())) {
        fail(ErrorCode::invalid_value,
             fmt::format("{}: {} and offsets/lengths exclude each other", names.tokens, names.cu_seqlens));
    }
    if ((is_packed || in_ranges) && rank != 2) {
        fail(ErrorCode::invalid_value, fmt::format("{} {}: packed {}s have two dimensions, [T, {}]", names.tokens,
                                                   side.tokens.shape_text(), names.token, names.dims));
    }
    if ((is_packed || in_ranges) && side.mask.given()) {
        fail(ErrorCode::invalid_value, fmt::format("{}: a mask goes with dense {}s [N, L, {}], not with packed ones",
                                                   names.mask, names.token, names.dims));
    }
    if (side.lengths.given() && side.mask.given()) {
        fail(ErrorCode::invalid_value, fmt::format("{} and {} exclude each other", names.lengths, names.mask));
    }
    const int most = names.items == query_names.items ? 3 : 4;
    if (rank < 2 || rank > most) {
        fail(ErrorCode::invalid_value, fmt::format("{} {}: {}s have 2 to {} dimensions, the last one {}", names.tokens,
                                                   side.tokens.shape_text(), names.token, most, names.dims));
    }
}

Segments make_segments(Copies& copies, const TokenSet& side, const SideNames& names, bool validate) {
    Segments s;
    if (side.cu_seqlens.given()) {
        s = packed(copies, side, names, validate);
    } else if (is_ranges(side)) {
        s = ranges(copies, side, validate);
    } else {
        s = dense(copies, side, names, validate);
    }
    if (s.max_length > max_document_tokens) {
        fail(ErrorCode::invalid_value, fmt::format("{}: an item of {} {}s; at most {} fit", names.tokens, s.max_length,
                                                   names.token, max_document_tokens));
    }
    return s;
}

}  // namespace rowmax::core
