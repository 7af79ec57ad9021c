#include "cuda/document_tensor.hpp"

#include <algorithm>
#include <cstdint>

namespace rowmax::cuda {

namespace {

/// Tokens that follow one another in memory: of an item, or of the whole array where items lie anywhere in it.
std::int64_t tokens_in_order(const core::Segments& side) {
    return side.kind == core::SegmentKind::strided ? side.length : side.total_rows;
}

std::int64_t row_bytes(const core::Params& params) {
    return params.dim * static_cast<std::int64_t>(size_of(params.dtype));
}

/// Between tokens. Nobody steps along a dimension of size 1, and its stride may be anything: here what is valid.
std::int64_t token_stride(const core::Params& params) {
    return tokens_in_order(params.d) == 1 ? (row_bytes(params) + 15) / 16 * 16 : params.d.row_stride;
}

}  // namespace

bool by_16(const core::Segments& side) {
    const auto address = reinterpret_cast<std::uintptr_t>(side.data);
    return address % 16 == 0 && side.row_stride % 16 == 0 && side.stride_outer % 16 == 0 && side.stride_inner % 16 == 0;
}

bool copy_engine_reads(const core::Params& params) {
    constexpr std::int64_t most_coordinate = std::int64_t{1} << 31;
    constexpr std::int64_t most_stride = std::int64_t{1} << 40;
    const core::Segments& d = params.d;
    const std::int64_t step = token_stride(params);
    const std::int64_t tokens = tokens_in_order(d);
    const bool forward = step >= row_bytes(params) && d.stride_inner >= 0 && d.stride_outer >= 0;
    return by_16(d) && forward && std::max({step, d.stride_inner, d.stride_outer}) < most_stride && tokens > 0 &&
           tokens < most_coordinate;
}

TensorShape document_tensor(const core::Params& params) {
    const core::Segments& d = params.d;
    TensorShape shape;
    shape.data = d.data;
    shape.dtype = params.dtype;
    shape.size[0] = params.dim;
    shape.size[1] = tokens_in_order(d);
    shape.stride[0] = shape.stride[1] = shape.stride[2] = token_stride(params);
    if (d.kind != core::SegmentKind::strided) return shape;
    shape.size[2] = d.stride_inner == 0 ? 1 : d.inner;
    shape.size[3] = d.stride_outer == 0 ? 1 : d.count / d.inner;
    if (d.stride_inner != 0) shape.stride[1] = d.stride_inner;
    if (d.stride_outer != 0) shape.stride[2] = d.stride_outer;
    return shape;
}

}  // namespace rowmax::cuda
