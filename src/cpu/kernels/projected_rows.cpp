#include "cpu/kernels/projected_rows.hpp"

#include <algorithm>

#include "cpu/tuning.hpp"

namespace rowmax::cpu {

template <class Value>
ProjectedRows<Value>::ProjectedRows(const TileOps& ops, const core::Params& params)
    : ops_(ops), projection_(core::projection_of(params)), dtype_(params.dtype), dim_(params.dim) {
    if (projection_ == nullptr) return;
    Buffer<Value> scratch;
    scratch.reserve(projection_->hidden);
    weight_.reshape(ops, projection_->hidden, dim_);
    for (std::int64_t k = 0; k < dim_; ++k) {
        const std::byte* row = projection_->weight + k * projection_->weight_stride;
        weight_.set_column(k, widened(ops, dtype_, row, scratch.data(), projection_->hidden));
    }
    if (projection_->bias != nullptr) pack_bias();
}

template <class Value>
void ProjectedRows<Value>::pack_bias() {
    Value* to = bias_.reserve(width());
    const std::byte* from = widened(ops_, dtype_, projection_->bias, to, dim_);
    for (std::int64_t k = 0; k < dim_; ++k) to[k] = core::load<Value>(from + k * std::int64_t{sizeof(Value)});
    std::fill(to + dim_, to + width(), Value{0});
}

template <class Value>
void ProjectedRows<Value>::project(Buffer<Value>& scratch, const std::byte* const* states, std::int64_t count,
                                   Value* to) const {
    const std::int64_t hidden = projection_->hidden;
    const auto run = run_length(static_cast<std::int64_t>(size_of(dtype_)));
    const PanelRange all{0, weight_.panels()};
    const Value* bias = projection_->bias != nullptr ? bias_.data() : nullptr;
    if (!is_half(dtype_)) return weight_.multiply(ops_, all, states, count, run, bias, to, width());
    Value* memory = scratch.reserve(widened_rows * hidden);
    const std::byte* rows[widened_rows + row_padding];
    for (std::int64_t first = 0; first < count; first += widened_rows) {
        const std::int64_t now = std::min(widened_rows, count - first);
        for (std::int64_t r = 0; r < now; ++r) {
            rows[r] = widened(ops_, dtype_, states[first + r], memory + r * hidden, hidden);
        }
        std::fill_n(rows + now, row_padding, rows[now - 1]);
        weight_.multiply(ops_, all, rows, now, run, bias, to + first * width(), width());
    }
}

template class ProjectedRows<float>;
template class ProjectedRows<double>;

}  // namespace rowmax::cpu
