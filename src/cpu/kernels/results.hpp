// From the maxima of lanes to what the caller sees: similarities by position, indices, scores.
#pragma once

#include <cstdint>
#include <limits>

#include "core/params.hpp"
#include "cpu/kernels/buffer.hpp"
#include "cpu/kernels/query_block.hpp"
#include "cpu/kernels/token_sum.hpp"

namespace rowmax::cpu {

/// The maxima of one document over the lanes of a query block.
template <class Value>
struct Maxima {
    Value* best = nullptr;
    Index<Value>* index = nullptr;  ///< null: not wanted
    std::int32_t first_kept = -1;   ///< the document's first kept token; -1: it has none
};

template <class Value>
class ResultWriter {
  public:
    ResultWriter(const core::Params& params, const core::Outputs& outputs) : params_(params), outputs_(outputs) {}

    /// Writes what one piece of a query adds to the results of `pair`. `total` carries its score from piece to piece.
    void write(const QueryBlock<Value>& block, const Piece& piece, std::int64_t pair, const Maxima<Value>& maxima,
               double& total, Buffer<Value>& scratch) const {
        const std::int64_t count = piece.end - piece.begin;
        Value* similarity = outputs_.similarity == nullptr
                                ? scratch.reserve(count)
                                : static_cast<Value*>(outputs_.similarity) + at(pair, piece.begin);
        similarities(block, piece, maxima, similarity);
        if (outputs_.index != nullptr) indices(block, piece, maxima, outputs_.index + at(pair, piece.begin));
        if (piece.begin == 0) total = 0;
        total = add_groups(total, similarity, count);
        if (!piece.final) return;
        static_cast<Value*>(outputs_.scores)[pair] = static_cast<Value>(total);
        fill_padding(pair, piece.end);
    }

  private:
    [[nodiscard]] std::int64_t at(std::int64_t pair, std::int64_t position) const {
        return pair * params_.q.max_length + position;
    }

    void similarities(const QueryBlock<Value>& block, const Piece& piece, const Maxima<Value>& maxima,
                      Value* to) const {
        const std::int64_t count = piece.end - piece.begin;
        if (piece.kept < count || maxima.first_kept < 0) {
            for (std::int64_t s = 0; s < count; ++s) to[s] = 0;
            if (maxima.first_kept < 0) return;
        }
        const Value* best = maxima.best + piece.first_lane;
        const Value* scales = block.scales() == nullptr ? nullptr : block.scales() + piece.first_lane;
        for (std::int64_t i = 0; i < piece.kept; ++i) {
            const Value x = scales == nullptr ? best[i] : best[i] * scales[i];
            // One NaN for all: which of several operands' NaN survives an instruction is not ours to choose.
            to[block.position(piece.first_lane + i) - piece.begin] =
                x == x ? x : std::numeric_limits<Value>::quiet_NaN();
        }
    }

    void indices(const QueryBlock<Value>& block, const Piece& piece, const Maxima<Value>& maxima,
                 std::int32_t* to) const {
        for (std::int64_t s = 0; s < piece.end - piece.begin; ++s) to[s] = -1;
        if (maxima.first_kept < 0) return;
        const Value* scales = block.scales();
        for (std::int64_t i = 0; i < piece.kept; ++i) {
            const std::int64_t lane = piece.first_lane + i;
            // Where the factor is NaN, so are all similarities, and the first wins.
            const bool nan = scales != nullptr && scales[lane] != scales[lane];
            const auto token = nan ? -1 : static_cast<std::int32_t>(maxima.index[lane]);
            to[block.position(lane) - piece.begin] = token < 0 ? maxima.first_kept : token;
        }
    }

    void fill_padding(std::int64_t pair, std::int64_t length) const {
        for (std::int64_t s = length; s < params_.q.max_length; ++s) {
            if (outputs_.index != nullptr) outputs_.index[at(pair, s)] = -1;
            if (outputs_.similarity != nullptr) static_cast<Value*>(outputs_.similarity)[at(pair, s)] = 0;
        }
    }

    const core::Params& params_;
    const core::Outputs& outputs_;
};

}  // namespace rowmax::cpu
