#include "cpu/kernels/residual_rows.hpp"

#include <algorithm>

#include "core/bit_fields.hpp"

namespace rowmax::cpu {

ResidualRows::ResidualRows(const core::Params& params) : dim_(params.dim) {
    if (params.compressed == nullptr || params.compressed->coding != core::Coding::residual) return;
    residual_ = &params.compressed->residual;
    const core::FieldTable table =
        core::field_table(residual_->nbits, residual_->little ? BitOrder::little : BitOrder::colbert);
    for (int i = 0; i < 256 * table.per_byte; ++i) {
        of_byte_.push_back(residual_->weights[table.fields[static_cast<std::size_t>(i)]]);
    }
}

const float* ResidualRows::read_centroid(const TileOps& ops, std::int64_t at, float* to) const {
    if (residual_->centroids == nullptr) {
        std::fill_n(to, dim_, 0.0F);
        return to;
    }
    const std::int64_t stored = core::detail::read_int(residual_->codes, residual_->wide_codes, at);
    const std::int64_t code = core::detail::clamp(stored, 0, residual_->centroid_count - 1);
    const std::byte* row = residual_->centroids + code * residual_->centroid_stride;
    if (residual_->centroid_dtype == DType::f32) return reinterpret_cast<const float*>(row);
    (residual_->centroid_dtype == DType::f16 ? ops.widen_f16 : ops.widen_bf16)(row, to, dim_);
    return to;
}

void ResidualRows::decode(const TileOps& ops, const std::byte* residual, std::int64_t at, float* to) const {
    ops.add_weights(residual, 8 / residual_->nbits, of_byte_.data(), read_centroid(ops, at, to), to, dim_);
}

}  // namespace rowmax::cpu
