#include "core/mirror.hpp"

#include <algorithm>

#include "rowmax/tensor.hpp"

namespace rowmax::core {

namespace {

/// The bytes, relative to a pointer, that steps of some dimensions reach.
struct Reach {
    std::int64_t low = 0;
    std::int64_t high = 0;

    void step(std::int64_t size, std::int64_t stride) {
        const std::int64_t far = (size - 1) * stride;
        (far < 0 ? low : high) += far;
    }
};

const std::byte* copy_extent(const void* host, const Reach& extent, const CopyBytes& copy) {
    const std::byte* first = static_cast<const std::byte*>(host) + extent.low;
    return copy(first, static_cast<std::size_t>(extent.high - extent.low)) - extent.low;
}

const void* copy_list(const void* list, std::int64_t count, bool wide, const CopyBytes& copy) {
    return list == nullptr ? nullptr : copy_extent(list, {0, count * (wide ? 8 : 4)}, copy);
}

const void* copy_mask(const Segments& side, const CopyBytes& copy) {
    const Mask& mask = side.mask;
    if (mask.data == nullptr || side.count == 0 || side.length == 0) return mask.data;
    const auto size = static_cast<std::int64_t>(size_of(mask.dtype));
    Reach extent{0, size};
    extent.step(side.count / side.inner, mask.stride_outer * size);
    extent.step(side.inner, mask.stride_inner * size);
    extent.step(side.length, mask.stride_token * size);
    return copy_extent(mask.data, extent, copy);
}

}  // namespace

Segments mirror(const Segments& host, std::int64_t row_bytes, const CopyBytes& copy) {
    Segments side = host;
    Reach extent{0, row_bytes};
    if (side.kind == SegmentKind::strided) {
        side.mask.data = copy_mask(host, copy);
        extent.step(std::max<std::int64_t>(side.count / std::max<std::int64_t>(side.inner, 1), 1), side.stride_outer);
        extent.step(std::max<std::int64_t>(side.inner, 1), side.stride_inner);
        extent.step(std::max<std::int64_t>(side.length, 1), side.row_stride);
    } else {
        extent.step(std::max<std::int64_t>(side.total_rows, 1), side.row_stride);
        const std::int64_t more = side.kind == SegmentKind::offsets ? 1 : 0;
        side.starts = copy_list(side.starts, side.count + more, side.wide_starts, copy);
        side.lengths = copy_list(side.lengths, side.count, side.wide_lengths, copy);
    }
    const bool empty = side.total_rows == 0 || side.data == nullptr;
    if (!empty) side.data = copy_extent(side.data, extent, copy);
    return side;
}

Pairs mirror(const Pairs& host, const CopyBytes& copy) {
    Pairs pairs = host;
    pairs.list_q = copy_list(host.list_q, host.count, host.wide_q, copy);
    pairs.list_d = copy_list(host.list_d, host.count, host.wide_d, copy);
    return pairs;
}

Params mirror(const Params& host, const CopyBytes& copy) {
    Params params = host;
    const std::int64_t row_bytes = host.dim * static_cast<std::int64_t>(size_of(host.dtype));
    params.q = mirror(host.q, row_bytes, copy);
    params.d = mirror(host.d, row_bytes, copy);
    params.pairs = mirror(host.pairs, copy);
    return params;
}

}  // namespace rowmax::core
