// Document rows as the fold kernels take them: where they lie, or widened into memory that stays in L1, with the factor
// of each where there are any.
#pragma once

#include <cstdint>

#include "core/params.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/row_blocks.hpp"
#include "cpu/kernels/row_values.hpp"
#include "cpu/kernels/tile_ops.hpp"
#include "cpu/tuning.hpp"

namespace rowmax::cpu {

/// What one thread has prepared of a block.
template <class Value>
struct PreparedRows {
    Buffer<Value> rows;
    Buffer<Value> scales;
    const std::byte* ready[RowBlock::most_rows];
};

template <class Value>
class DocumentRows {
  public:
    DocumentRows(const TileOps& ops, const core::Params& params) : ops_(ops), params_(params) {
        scaled_ = params.normalize || params.compressed != nullptr;
        widened_ = scaled_ || is_half(params.dtype);
        steps_ = steps_of(ops, params);
    }

    /// Values of a prepared row, which is what a kernel's loop counts.
    [[nodiscard]] std::int64_t steps() const { return steps_; }
    /// Products of one chain of additions; integers need no second.
    [[nodiscard]] std::int64_t chain() const {
        return params_.dtype == DType::i8 ? steps_ : run_length(static_cast<std::int64_t>(size_of(params_.dtype)));
    }
    [[nodiscard]] bool scaled() const { return scaled_; }
    /// Rows of 16-bit elements that a kernel may take as they are.
    [[nodiscard]] bool plain_halves() const { return is_half(params_.dtype) && !params_.normalize; }

    void reserve(PreparedRows<Value>& memory, std::int64_t most_rows) const {
        if (widened_) memory.rows.reserve(most_rows * steps_);
        if (scaled_) memory.scales.reserve(RowBlock::most_rows);
    }

    const std::byte* const* prepare(PreparedRows<Value>& memory, const RowBlock& block) const {
        if (!widened_) return block.rows;
        for (std::int64_t r = 0; r < block.count; ++r) {
            Value* scratch = memory.rows.data() + r * steps_;
            memory.ready[r] = widened(ops_, params_.dtype, block.rows[r], scratch, params_.dim);
            if (params_.normalize) memory.scales[r] = inverse_norm(ops_, memory.ready[r], scratch, params_.dim);
        }
        if (params_.compressed != nullptr) read_scales(memory, block);
        for (std::int64_t r = block.count; r < block.count + row_padding; ++r) {
            memory.ready[r] = memory.ready[block.count - 1];
            if (scaled_) memory.scales[r] = memory.scales[block.count - 1];
        }
        return memory.ready;
    }

  private:
    void read_scales(PreparedRows<Value>& memory, const RowBlock& block) const {
        const core::Scales& scales = params_.compressed->d;
        const float* first = scales.of(params_.d, block.document);
        for (std::int64_t r = 0; r < block.count; ++r) {
            memory.scales[r] = Value{first[block.tokens[r] * scales.stride_token]};
        }
    }

    const TileOps& ops_;
    const core::Params& params_;
    bool scaled_ = false;
    bool widened_ = false;
    std::int64_t steps_ = 0;
};

}  // namespace rowmax::cpu
