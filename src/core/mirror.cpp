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

/// Of tokens that are packed numbers of so many bits.
std::int64_t packed_bytes(const Params& params, std::int64_t nbits) {
    return (params.dim * nbits + 7) / 8;
}

bool has_coding(const Params& params, Coding coding) {
    return params.compressed != nullptr && params.compressed->coding == coding;
}

Residual copy_residual(const Segments& side, const Residual& host, const CopyBytes& copy) {
    Residual residual = host;
    const auto weight = static_cast<std::int64_t>(size_of(host.weight_dtype));
    Reach weights{0, weight};
    weights.step(std::int64_t{1} << host.nbits, host.weight_stride * weight);
    if (host.weight_data != nullptr) residual.weight_data = copy_extent(host.weight_data, weights, copy);
    if (host.centroids == nullptr) return residual;
    Reach rows{0, host.centroid_stride};
    rows.step(host.centroid_count, host.centroid_stride);
    residual.centroids = copy_extent(host.centroids, rows, copy);
    residual.codes = nullptr;
    if (side.total_rows == 0) return residual;
    const std::int64_t size = host.wide_codes ? 8 : 4;
    Reach codes{0, size};
    if (side.kind == SegmentKind::strided) {
        codes.step(side.count / side.inner, host.steps.outer * size);
        codes.step(side.inner, host.steps.inner * size);
        codes.step(side.length, host.steps.token * size);
    } else {
        codes.step(side.total_rows, host.steps.token * size);
    }
    residual.codes = copy_extent(host.codes, codes, copy);
    return residual;
}

Projection copy_projection(const Params& params, const Projection& host, const CopyBytes& copy) {
    const auto size = static_cast<std::int64_t>(size_of(params.dtype));
    Projection projection = host;
    Reach rows{0, host.hidden * size};
    rows.step(params.dim, host.weight_stride);
    if (params.dim > 0 && host.hidden > 0) projection.weight = copy_extent(host.weight, rows, copy);
    if (host.bias != nullptr) projection.bias = copy_extent(host.bias, {0, params.dim * size}, copy);
    return projection;
}

Scales copy_scales(const Segments& side, const Scales& host, const CopyBytes& copy) {
    Scales scales = host;
    scales.data = nullptr;
    if (host.data == nullptr || side.total_rows == 0) return scales;
    constexpr std::int64_t size = sizeof(float);
    Reach extent{0, size};
    if (side.kind == SegmentKind::strided) {
        extent.step(side.count / side.inner, host.steps.outer * size);
        extent.step(side.inner, host.steps.inner * size);
        extent.step(side.length, host.steps.token * size);
    } else {
        extent.step(side.total_rows, host.steps.token * size);
    }
    scales.data = static_cast<const float*>(static_cast<const void*>(copy_extent(host.data, extent, copy)));
    return scales;
}

}  // namespace

Segments mirror(const Segments& host, std::int64_t row_bytes, const CopyBytes& copy) {
    Segments side = host;
    Reach extent{0, row_bytes};
    if (side.kind == SegmentKind::strided) {
        side.mask.data = copy_mask(host, copy);
        side.lengths = copy_list(side.lengths, side.count, side.wide_lengths, copy);
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

const Compressed* mirror_compressed(const Params& host, Compressed& place, const CopyBytes& copy) {
    if (host.compressed == nullptr) return nullptr;
    place = *host.compressed;
    place.q = copy_scales(host.q, place.q, copy);
    place.d = copy_scales(host.d, place.d, copy);
    if (place.coding == Coding::residual) place.residual = copy_residual(host.d, place.residual, copy);
    if (projection_of(host) != nullptr) place.projection = copy_projection(host, place.projection, copy);
    return &place;
}

Params mirror(const Params& host, Compressed& place, const CopyBytes& copy) {
    Params params = host;
    params.q = mirror(host.q, query_row_bytes(host), copy);
    params.d = mirror(host.d, document_row_bytes(host), copy);
    params.pairs = mirror(host.pairs, copy);
    params.compressed = mirror_compressed(host, place, copy);
    return params;
}

std::int64_t query_row_bytes(const Params& params) {
    if (has_coding(params, Coding::bits)) return packed_bytes(params, 1);
    return params.dim * static_cast<std::int64_t>(size_of(query_dtype(params)));
}

std::int64_t document_row_bytes(const Params& params) {
    if (has_coding(params, Coding::bits)) return packed_bytes(params, 1);
    if (has_coding(params, Coding::residual)) return packed_bytes(params, params.compressed->residual.nbits);
    const Projection* projection = projection_of(params);
    const std::int64_t elements = projection == nullptr ? params.dim : projection->hidden;
    return elements * static_cast<std::int64_t>(size_of(params.dtype));
}

}  // namespace rowmax::core
