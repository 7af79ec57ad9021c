#include "cuda/mirror.hpp"

#include <algorithm>

#include "rowmax/tensor.hpp"

namespace rowmax::test {

namespace {

/// The bytes, relative to a pointer, that steps of some dimensions reach.
struct Extent {
    std::int64_t low = 0;
    std::int64_t high = 0;

    void step(std::int64_t size, std::int64_t stride) {
        const std::int64_t far = (size - 1) * stride;
        (far < 0 ? low : high) += far;
    }
};

template <class T>
const T* move(const T* host, const Extent& extent, DeviceMemory& memory) {
    const auto bytes = static_cast<std::size_t>(extent.high - extent.low);
    const std::byte* first = reinterpret_cast<const std::byte*>(host) + extent.low;
    std::byte* to = memory.take(bytes, reinterpret_cast<std::uintptr_t>(first));
    DeviceMemory::to_device(to, first, bytes);
    return reinterpret_cast<const T*>(to - extent.low);
}

const void* move_list(const void* list, std::int64_t count, bool wide, DeviceMemory& memory) {
    if (list == nullptr) return nullptr;
    return move(static_cast<const std::byte*>(list), {0, count * (wide ? 8 : 4)}, memory);
}

void move_mask(core::Segments& side, DeviceMemory& memory) {
    core::Mask& mask = side.mask;
    if (mask.data == nullptr || side.count == 0 || side.length == 0) return;
    const auto size = static_cast<std::int64_t>(size_of(mask.dtype));
    Extent extent{0, size};
    extent.step(side.count / side.inner, mask.stride_outer * size);
    extent.step(side.inner, mask.stride_inner * size);
    extent.step(side.length, mask.stride_token * size);
    mask.data = move(static_cast<const std::byte*>(mask.data), extent, memory);
}

core::Segments move_side(core::Segments side, std::int64_t row_bytes, DeviceMemory& memory) {
    Extent extent{0, row_bytes};
    if (side.kind == core::SegmentKind::strided) {
        move_mask(side, memory);
        extent.step(std::max<std::int64_t>(side.count / std::max<std::int64_t>(side.inner, 1), 1), side.stride_outer);
        extent.step(std::max<std::int64_t>(side.inner, 1), side.stride_inner);
        extent.step(std::max<std::int64_t>(side.length, 1), side.row_stride);
    } else {
        extent.step(std::max<std::int64_t>(side.total_rows, 1), side.row_stride);
        const std::int64_t more = side.kind == core::SegmentKind::offsets ? 1 : 0;
        side.starts = move_list(side.starts, side.count + more, side.wide_starts, memory);
        side.lengths = move_list(side.lengths, side.count, side.wide_lengths, memory);
    }
    const bool empty = side.total_rows == 0 || side.data == nullptr;
    if (!empty) side.data = move(side.data, extent, memory);
    return side;
}

}  // namespace

core::Params mirror(const core::Params& host, DeviceMemory& memory) {
    core::Params params = host;
    const std::int64_t row_bytes = host.dim * static_cast<std::int64_t>(size_of(host.dtype));
    params.q = move_side(host.q, row_bytes, memory);
    params.d = move_side(host.d, row_bytes, memory);
    params.pairs.list_q = move_list(host.pairs.list_q, host.pairs.count, host.pairs.wide_q, memory);
    params.pairs.list_d = move_list(host.pairs.list_d, host.pairs.count, host.pairs.wide_d, memory);
    params.place.cuda = true;
    return params;
}

}  // namespace rowmax::test
