// Document rows as the fold kernels take them: where they lie, or widened, decoded or projected into memory that stays
// in L1, with the factor of each where there are any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/params.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/projected_rows.hpp"
#include "cpu/kernels/residual_rows.hpp"
#include "cpu/kernels/row_blocks.hpp"
#include "cpu/kernels/row_values.hpp"
#include "cpu/kernels/rows_meanwhile.hpp"
#include "cpu/kernels/tile_ops.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

/// What one thread has prepared of a block.
template <class Value>
struct PreparedRows {
    Buffer<Value> rows;
    Buffer<Value> scales;
    Buffer<Value> states;  ///< hidden states, widened
    const std::byte* ready[RowBlock::most_rows];
};

template <class Value>
class DocumentRows {
  public:
    DocumentRows(const TileOps& ops, const core::Params& params)
        : ops_(ops), params_(params), residual_(residual_of(params)), decoder_(params), projected_(ops, params) {
        const core::Projection* projection = core::projection_of(params);
        normalized_ = params.normalize || (residual_ != nullptr && residual_->normalize) ||
                      (projection != nullptr && projection->normalize);
        scaled_ = normalized_ || has_scales(params);
        widened_ = scaled_ || is_half(params.dtype) || params.compressed != nullptr;
        steps_ = steps_of(ops, params);
        width_ = projected_.given() ? projected_.width() : steps_;
    }

    /// Values of a prepared row, which is what a kernel's loop counts.
    [[nodiscard]] std::int64_t steps() const { return steps_; }
    /// Products of one chain of additions; integers need no second.
    [[nodiscard]] std::int64_t chain() const {
        if (code_ops_of(ops_, params_) != nullptr) return steps_;
        return run_length(residual_ != nullptr ? sizeof(float) : static_cast<std::int64_t>(size_of(params_.dtype)));
    }
    /// Bytes of a row as it is stored.
    [[nodiscard]] std::int64_t stored_bytes() const {
        if (residual_ != nullptr) return (params_.dim * residual_->nbits + 7) / 8;
        if (params_.dtype == DType::u8) return (params_.dim + 7) / 8;
        const core::Projection* projection = core::projection_of(params_);
        return (projection != nullptr ? projection->hidden : params_.dim) *
               static_cast<std::int64_t>(size_of(params_.dtype));
    }
    [[nodiscard]] bool scaled() const { return scaled_; }
    /// Rows of 16-bit elements that a kernel may take as they are.
    [[nodiscard]] bool plain_halves() const {
        return is_half(params_.dtype) && !params_.normalize && !projected_.given();
    }
    /// Rows that take much longer to be prepared than to be read.
    [[nodiscard]] bool projected() const { return projected_.given(); }

    void reserve(PreparedRows<Value>& memory, std::int64_t most_rows) const {
        if (widened_) memory.rows.reserve((most_rows + row_padding) * width_);
        if (scaled_) memory.scales.reserve(RowBlock::most_rows);
    }

    /// Rows that only have to be widened, which can be done while others are multiplied.
    [[nodiscard]] bool only_widened() const { return is_half(params_.dtype) && !scaled_ && !projected_.given(); }

    /// The work of prepare() for such a block, spread over `chains` chains of another.
    RowsMeanwhile meanwhile(PreparedRows<Value>& memory, const RowBlock& block, std::int64_t chains) const {
        RowsMeanwhile rows;
        if constexpr (std::is_same_v<Value, float>) {
            rows.widen = params_.dtype == DType::f16 ? ops_.widen_f16 : ops_.widen_bf16;
            rows.rows = block.rows;
            rows.to = memory.rows.data();
            rows.dim = params_.dim;
            rows.count = block.count;
            rows.at_once = (block.count + chains - 1) / chains;
            for (std::int64_t r = 0; r < block.count + row_padding; ++r) {
                const std::int64_t from = std::min(r, block.count - 1);
                memory.ready[r] = reinterpret_cast<const std::byte*>(rows.to + from * rows.dim);
            }
        }
        return rows;
    }

    const std::byte* const* prepare(PreparedRows<Value>& memory, const RowBlock& block) const {
        if (!widened_) return block.rows;
        const std::int64_t first_code = residual_ != nullptr ? residual_->steps.first(params_.d, block.document) : 0;
        if (projected_.given()) projected_.project(memory.states, block.rows, block.count, memory.rows.data());
        for (std::int64_t r = 0; r < block.count; ++r) {
            Value* scratch = memory.rows.data() + r * width_;
            memory.ready[r] = row_of(block, r, first_code, scratch);
            if (normalized_) memory.scales[r] = inverse_norm(ops_, memory.ready[r], scratch, params_.dim);
        }
        if (has_scales(params_)) read_scales(memory, block);
        for (std::int64_t r = block.count; r < block.count + row_padding; ++r) {
            memory.ready[r] = memory.ready[block.count - 1];
            if (scaled_) memory.scales[r] = memory.scales[block.count - 1];
        }
        return memory.ready;
    }

  private:
    /// Row r as it is before its norm is looked at; projected ones are in `scratch` already.
    const std::byte* row_of(const RowBlock& block, std::int64_t r, std::int64_t first_code, Value* scratch) const {
        if constexpr (std::is_same_v<Value, float>) {
            if (residual_ != nullptr) decode(block, r, first_code, scratch);
        }
        if (residual_ != nullptr || projected_.given()) return reinterpret_cast<const std::byte*>(scratch);
        return widened(ops_, params_.dtype, block.rows[r], scratch, params_.dim);
    }

    void decode(const RowBlock& block, std::int64_t r, std::int64_t first_code, float* to) const {
        decoder_.decode(ops_, block.rows[r], first_code + block.tokens[r] * residual_->steps.token, to);
    }

    void read_scales(PreparedRows<Value>& memory, const RowBlock& block) const {
        const core::Scales& scales = params_.compressed->d;
        const float* first = scales.data + scales.steps.first(params_.d, block.document);
        for (std::int64_t r = 0; r < block.count; ++r) {
            memory.scales[r] = Value{first[block.tokens[r] * scales.steps.token]};
        }
    }

    const TileOps& ops_;
    const core::Params& params_;
    const core::Residual* residual_;
    ResidualRows decoder_;
    ProjectedRows<Value> projected_;
    bool normalized_ = false;
    bool scaled_ = false;
    bool widened_ = false;
    std::int64_t steps_ = 0;
    std::int64_t width_ = 0;  ///< values between prepared rows
};

}  // namespace rowmax::cpu
