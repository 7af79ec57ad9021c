// What one instruction set offers to operators that keep more of a row of similarities than its maximum. Plain data
// only, as in tile_ops.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/tile_ops.hpp"

namespace rowmax::cpu {

/// Document rows against packed query panels, as FoldArgs, but the similarities themselves are wanted:
/// to[prefix][row][lane], where prefix p counts only the first prefixes[p] dimensions.
template <class Value>
struct SimilarityArgs {
    const Value* panels = nullptr;  ///< [panel_count][dim][lanes of a panel]
    std::int64_t panel_count = 0;
    std::int64_t dim = 0;
    std::int64_t run = 0;                    ///< products that one chain of multiply-adds takes
    const std::byte* const* rows = nullptr;  ///< of Value, any alignment; row_padding more repeat the last
    const Value* scales = nullptr;           ///< factor of each row; null: none
    std::int64_t row_count = 0;              ///< without the padding
    const std::int64_t* prefixes = nullptr;  ///< ascending, the last at most dim
    std::int64_t prefix_count = 0;
    Value* to = nullptr;  ///< with room for the padding, too
    std::int64_t row_step = 0;
    std::int64_t prefix_step = 0;
};

/// targets[i][:] += the sum over r of weights[r * source_step + i * target_step] * sources[r][:], each sum a chain of
/// multiply-adds from zero in the order of r.
template <class Value>
struct AccumulateArgs {
    const Value* weights = nullptr;
    std::int64_t source_step = 0;
    std::int64_t target_step = 0;
    const std::byte* const* sources = nullptr;
    std::int64_t source_count = 0;
    Value* targets = nullptr;  ///< [target_count][dim]
    std::int64_t target_count = 0;
    std::int64_t dim = 0;
};

template <class Value>
struct SelectOps {
    void (*similarities_wide)(const SimilarityArgs<Value>&) = nullptr;
    void (*similarities_narrow)(const SimilarityArgs<Value>&) = nullptr;
    void (*accumulate)(const AccumulateArgs<Value>&) = nullptr;
    /// best[lane] = max(best[lane], max over rows of x[row][lane]), with its token, as the tile kernel folds: the first
    /// of equals and of NaN. `lanes`: whole vectors, the step from row to row.
    void (*fold_rows)(const Value* x, const std::int32_t* tokens, std::int64_t rows, std::int64_t lanes, Value* best,
                      Index<Value>* index) = nullptr;
    /// Whether any x[lane] is not at most limit[lane].
    bool (*any_above)(const Value* x, const Value* limit, std::int64_t lanes) = nullptr;
    /// x[i] = exp((x[i] - shift[i]) * factor); 0 below about 1e-38 in float.
    void (*exponentials)(Value* x, const Value* shift, Value factor, std::int64_t count) = nullptr;
};

struct SelectionOps {
    SelectOps<float> f32;
    SelectOps<double> f64;
};

}  // namespace rowmax::cpu
