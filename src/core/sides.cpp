#include "core/sides.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace rowmax::core {

namespace {

constexpr std::int64_t max_document_tokens = (std::int64_t{1} << 31) - 1;

[[noreturn]] void fail(ErrorCode code, const std::string& message) {
    throw Error(code, message);
}

bool aligned(const TensorView& view) {
    return reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) == 0;
}

// Walks the leading dimensions of `view`, copying one innermost row at a time.
void copy_rows(const TensorView& view, int dimension, const std::byte* from, std::byte*& to) {
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    for (std::int64_t i = 0; i < view.shape[dimension]; ++i) {
        const std::byte* item = from + i * view.stride[dimension] * size;
        if (dimension + 1 < view.ndim) {
            copy_rows(view, dimension + 1, item, to);
        } else {
            std::memcpy(to, item, static_cast<std::size_t>(size));
            to += size;
        }
    }
}

TensorView copy_of(Copies& copies, const TensorView& view) {
    copies.emplace_back(new std::byte[static_cast<std::size_t>(view.numel()) * size_of(view.dtype)]);
    std::byte* to = copies.back().get();
    if (view.numel() > 0) copy_rows(view, 0, static_cast<const std::byte*>(view.data), to);
    return {copies.back().get(), view.dtype, std::span(view.shape.data(), static_cast<std::size_t>(view.ndim))};
}

// Every byte offset inside the view must be a number that a pointer can move by.
void check_extent(const TensorView& view, std::string_view name) {
    const auto size = static_cast<std::int64_t>(size_of(view.dtype));
    std::int64_t elements = 0;
    bool fits = view.numel() <= std::numeric_limits<std::int64_t>::max() / size;
    for (int i = 0; i < view.ndim; ++i) {
        std::int64_t step = 0;
        fits = fits && !__builtin_mul_overflow(view.shape[i] - 1, view.stride[i], &step) &&
               step != std::numeric_limits<std::int64_t>::min() &&
               !__builtin_add_overflow(elements, std::abs(step), &elements);
    }
    if (fits && elements < std::numeric_limits<std::int64_t>::max() / size) return;
    fail(ErrorCode::invalid_value,
         fmt::format("{} {}: its elements and strides do not fit 64 bits (strides [{}])", name, view.shape_text(),
                     fmt::join(view.stride.begin(), view.stride.begin() + view.ndim, ", ")));
}

void check_present(const TensorView& view, std::string_view name) {
    if (!view.given()) fail(ErrorCode::invalid_value, fmt::format("{} is missing", name));
    if (view.ndim > TensorView::max_ndim) {
        fail(ErrorCode::invalid_value,
             fmt::format("{}: a view has at most {} dimensions, got {}", name, TensorView::max_ndim, view.ndim));
    }
    for (int i = 0; i < view.ndim; ++i) {
        if (view.shape[i] < 0)
            fail(ErrorCode::invalid_value, fmt::format("{} {}: a negative size", name, view.shape_text()));
    }
    if (view.data == nullptr && view.numel() > 0) {
        fail(ErrorCode::invalid_value, fmt::format("{} {} has no data (null pointer)", name, view.shape_text()));
    }
    if (view.numel() > 0) check_extent(view, name);
}

// Strides that nobody steps along may hold anything; 0 stands for them.
TensorView without_idle_strides(TensorView view) {
    const bool empty = view.numel() == 0;
    for (int i = 0; i < view.ndim; ++i) {
        if (empty || view.shape[i] == 1) view.stride[i] = 0;
    }
    return view;
}

// A 1 in front serves every item; anything else must match exactly.
Mask dense_mask(Copies& copies, const TokenSet& side, const SideNames& names) {
    check_present(side.mask, names.mask);
    const TensorView mask = without_idle_strides(aligned(side.mask) ? side.mask : copy_of(copies, side.mask));
    const TensorView& tokens = side.tokens;
    const int items = tokens.ndim - 2;  // leading dimensions
    bool fits = mask.ndim == tokens.ndim - 1 || (items == 0 && mask.ndim == 2 && mask.shape[0] == 1);
    const int extra = fits ? mask.ndim - 1 - items : 0;
    bool leading = true;
    for (int i = 0; fits && i <= items; ++i) {
        const std::int64_t have = mask.shape[i + extra];
        const bool broadcast = leading && have == 1 && i < items;
        leading = leading && have == 1;
        fits = broadcast || have == tokens.shape[i];
    }
    if (!fits) {
        fail(ErrorCode::invalid_value,
             fmt::format("{} {} does not fit {} {}: it needs one value a token, with a leading 1 to serve every item",
                         names.mask, mask.shape_text(), names.tokens, tokens.shape_text()));
    }
    const auto step = [&](int i) { return i < items ? mask.stride[i + extra] : 0; };
    return {mask.data, mask.dtype, step(0), step(1), mask.stride[mask.ndim - 1]};
}

Segments dense(Copies& copies, const TokenSet& side, const SideNames& names) {
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
        fail(ErrorCode::invalid_value, fmt::format("{} ends at {}, but {} holds {} tokens", names.cu_seqlens,
                                                   at(list.count - 1), names.tokens, rows));
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
    if (validate) check_offsets(offsets, s.total_rows, names);
    s.kind = SegmentKind::offsets;
    s.count = offsets.count - 1;
    s.starts = offsets.data;
    s.wide_starts = offsets.wide;
    s.max_length = longest(s);
    if (side.max_seqlen >= 0 && side.max_seqlen < s.max_length) {
        fail(ErrorCode::invalid_value, fmt::format("{} is {}, but {} holds an item of {} tokens", names.max_seqlen,
                                                   side.max_seqlen, names.cu_seqlens, s.max_length));
    }
    s.max_length = std::max(s.max_length, side.max_seqlen);
    return s;
}

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
    if (validate) check_ranges(s);
    s.max_length = longest(s);
    return s;
}

}  // namespace

TensorView readable(Copies& copies, const TensorView& view) {
    const int last = view.ndim - 1;
    const bool in_place = (view.stride[last] == 1 || view.shape[last] <= 1) && aligned(view);
    return without_idle_strides(in_place ? view : copy_of(copies, view));
}

IntList int_list(Copies& copies, const TensorView& view, std::string_view name) {
    check_present(view, name);
    if (view.dtype != DType::i32 && view.dtype != DType::i64) {
        fail(ErrorCode::invalid_type, fmt::format("{} must be int32 or int64, got {}", name, name_of(view.dtype)));
    }
    if (view.ndim != 1)
        fail(ErrorCode::invalid_value, fmt::format("{} must have one dimension, got {}", name, view.shape_text()));
    return {readable(copies, view).data, view.shape[0], view.dtype == DType::i64};
}

std::int64_t checked_product(std::int64_t a, std::int64_t b, std::string_view what) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) {
        fail(ErrorCode::invalid_value, fmt::format("{}: {} x {} does not fit 64 bits", what, a, b));
    }
    return product;
}

bool single_item(const TokenSet& side) {
    return side.tokens.ndim == 2 && !side.cu_seqlens.given() && !side.offsets.given();
}

void check_token_dtype(const TokenSet& side, const SideNames& names) {
    check_present(side.tokens, names.tokens);
    switch (side.tokens.dtype) {
        case DType::f16:
        case DType::bf16:
        case DType::f32:
        case DType::f64: return;
        default: break;
    }
    fail(ErrorCode::invalid_type, fmt::format("{} must be float16, bfloat16, float32 or float64, got {}", names.tokens,
                                              name_of(side.tokens.dtype)));
}

void check_layout(const TokenSet& side, const SideNames& names) {
    const int rank = side.tokens.ndim;
    const bool is_packed = side.cu_seqlens.given();
    const bool is_ranges = side.offsets.given() || side.lengths.given();
    if (is_packed && is_ranges) {
        fail(ErrorCode::invalid_value,
             fmt::format("{}: {} and offsets/lengths exclude each other", names.tokens, names.cu_seqlens));
    }
    if ((is_packed || is_ranges) && rank != 2) {
        fail(ErrorCode::invalid_value,
             fmt::format("{} {}: packed tokens have two dimensions, [T, d]", names.tokens, side.tokens.shape_text()));
    }
    if ((is_packed || is_ranges) && side.mask.given()) {
        fail(ErrorCode::invalid_value,
             fmt::format("{}: a mask goes with dense tokens [N, L, d], not with packed ones", names.mask));
    }
    const int most = names.tokens == document_names.tokens ? 4 : 3;
    if (rank < 2 || rank > most) {
        fail(ErrorCode::invalid_value, fmt::format("{} {}: tokens have 2 to {} dimensions, the last one d",
                                                   names.tokens, side.tokens.shape_text(), most));
    }
}

Segments make_segments(Copies& copies, const TokenSet& side, const SideNames& names, bool validate) {
    Segments s;
    if (side.cu_seqlens.given()) {
        s = packed(copies, side, names, validate);
    } else if (side.offsets.given() || side.lengths.given()) {
        s = ranges(copies, side, validate);
    } else {
        s = dense(copies, side, names);
    }
    if (s.max_length > max_document_tokens) {
        fail(ErrorCode::invalid_value,
             fmt::format("{}: an item of {} tokens; at most {} fit", names.tokens, s.max_length, max_document_tokens));
    }
    return s;
}

}  // namespace rowmax::core
