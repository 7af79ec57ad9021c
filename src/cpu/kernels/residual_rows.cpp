#include "cpu/kernels/residual_rows.hpp"

#include <algorithm>
#include <cstring>

#include "core/bit_fields.hpp"

namespace rowmax::cpu {

namespace {

template <int InByte>
void add_weights(const std::byte* residual, std::int64_t dim, const float* of_byte, float* to) {
    const std::int64_t whole = dim / InByte;
    const auto weights = [&](std::int64_t b) { return of_byte + std::to_integer<std::int64_t>(residual[b]) * InByte; };
    for (std::int64_t b = 0; b < whole; ++b) {
        const float* w = weights(b);
        for (int i = 0; i < InByte; ++i) to[b * InByte + i] += w[i];
    }
    for (std::int64_t k = whole * InByte; k < dim; ++k) to[k] += weights(whole)[k - whole * InByte];
}

}  // namespace

ResidualRows::ResidualRows(const core::Params& params) : dim_(params.dim) {
    if (params.compressed == nullptr || params.compressed->coding != core::Coding::residual) return;
    residual_ = &params.compressed->residual;
    const core::FieldTable table =
        core::field_table(residual_->nbits, residual_->little ? BitOrder::little : BitOrder::colbert);
    for (int i = 0; i < 256 * table.per_byte; ++i) {
        of_byte_.push_back(residual_->weights[table.fields[static_cast<std::size_t>(i)]]);
    }
}

void ResidualRows::read_centroid(const TileOps& ops, std::int64_t at, float* to) const {
    if (residual_->centroids == nullptr) {
        std::fill_n(to, dim_, 0.0F);
        return;
    }
    const std::int64_t stored = core::detail::read_int(residual_->codes, residual_->wide_codes, at);
    const std::int64_t code = core::detail::clamp(stored, 0, residual_->centroid_count - 1);
    const std::byte* row = residual_->centroids + code * residual_->centroid_stride;
    switch (residual_->centroid_dtype) {
        case DType::f16: return ops.widen_f16(row, to, dim_);
        case DType::bf16: return ops.widen_bf16(row, to, dim_);
        default: std::memcpy(to, row, static_cast<std::size_t>(dim_) * sizeof(float));
    }
}

void ResidualRows::decode(const TileOps& ops, const std::byte* residual, std::int64_t at, float* to) const {
    read_centroid(ops, at, to);
    switch (residual_->nbits) {
        case 1: return add_weights<8>(residual, dim_, of_byte_.data(), to);
        case 2: return add_weights<4>(residual, dim_, of_byte_.data(), to);
        case 4: return add_weights<2>(residual, dim_, of_byte_.data(), to);
        default: return add_weights<1>(residual, dim_, of_byte_.data(), to);
    }
}

}  // namespace rowmax::cpu
