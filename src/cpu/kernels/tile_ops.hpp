// What one instruction set offers to the drivers: a table of functions, filled in by one file under inst/.
// Plain data only, because those files are compiled for CPUs that the rest of the library may not run on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rowmax::cpu {

/// Row numbers have the width of the values they travel with, so that one lane mask selects both.
template <class Value>
struct IndexOf {
    using type = std::int32_t;
};
template <>
struct IndexOf<double> {
    using type = std::int64_t;
};
template <class Value>
using Index = typename IndexOf<Value>::type;

/// No kernel takes more rows at a time; row lists are padded to a multiple of what it takes, by less than this.
inline constexpr std::int64_t row_padding = 8;

struct RowsMeanwhile;

/// Document rows against packed query panels: best[lane] = max(best[lane], max over rows of <query lane, row>).
/// For the kernel of few query rows, lanes are those of the document rows: its panels are [dim][rows of a turn], its
/// maxima [query rows][few_lanes].
template <class Value>
struct FoldArgs {
    /// [panel_count][dim][lanes], zero where a lane holds no query token; CodeOps: [panel_count][dim + 1][lanes]
    const Value* panels = nullptr;
    std::int64_t panel_count = 0;  ///< few: query rows
    std::int64_t dim = 0;
    std::int64_t run = 0;                    ///< products that one chain of multiply-adds takes
    const std::byte* const* rows = nullptr;  ///< of Value, any alignment; `padding` repeats the last
    const std::int32_t* tokens = nullptr;    ///< the number of each row
    const Value* scales = nullptr;           ///< factor of each row; null: none
    std::int64_t row_count = 0;              ///< without the padding
    Value* best = nullptr;                   ///< [panel_count][lanes]
    Index<Value>* index = nullptr;           ///< token that gave `best`; null: not wanted
    const std::byte* ahead = nullptr;        ///< memory that the next call reads, fetched meanwhile; null: none
    std::int64_t ahead_lines = 0;            ///< cache lines of it that one run asks for, a multiple of 4
    RowsMeanwhile* meanwhile = nullptr;      ///< null: none
};

template <class Value>
struct TypedOps {
    std::int64_t lanes = 0;        ///< of one vector; a wide panel has two vectors, a narrow one has one
    std::int64_t tile_rows = 0;    ///< document rows that one tile takes
    std::int64_t few_lanes = 0;    ///< document rows that fold_few takes at a time
    std::int64_t paired_rows = 0;  ///< and fold_paired
    void (*fold_wide)(const FoldArgs<Value>&) = nullptr;
    void (*fold_paired)(const FoldArgs<Value>&) = nullptr;  ///< fold_wide for short chains; null: none
    void (*fold_narrow)(const FoldArgs<Value>&) = nullptr;
    void (*fold_few)(const FoldArgs<Value>&) = nullptr;
    /// Sum of squares of a row, in an order that does not depend on the instruction set.
    double (*sum_squares)(const std::byte* row, std::int64_t dim) = nullptr;
    /// sum[k] += factor * row[k]
    void (*add_scaled)(Value* sum, const std::byte* row, Value factor, std::int64_t dim) = nullptr;
};

/// Codes that are multiplied as integers and so exactly: int8, or sign bits, whose product counts those that differ. A
/// value of FoldArgs<float> is then a word of 32 bits that holds some codes; there are as many words in a row as its
/// codes fill, with zeros at the end.
struct CodeOps {
    /// Panels have one more row: what is added to each lane's sum, an int32.
    TypedOps<float> fold;
    std::int64_t in_word = 0;  ///< 4 codes, or 2 widened to 16 bits, or 32 bits
    std::int32_t offset = 0;   ///< what documents' codes are raised by, for instructions that want them unsigned
    void (*widen)(const std::byte* row, float* words, std::int64_t dim) = nullptr;  ///< a document's row
};

/// Rows times packed panels, stored: to[row][column] = sum over k of row[k] * panel[k][column], + bias[column].
template <class Value>
struct ProjectArgs {
    FoldArgs<Value> product;      ///< panels of two vectors, rows, dim and run; what belongs to maxima is not read
    const Value* bias = nullptr;  ///< one a lane of all panels; null: none
    Value* to = nullptr;          ///< room for the rows and their padding
    std::int64_t stride = 0;      ///< values between rows of `to`
};

struct ProjectOps {
    void (*f32)(const ProjectArgs<float>&) = nullptr;
    void (*f64)(const ProjectArgs<double>&) = nullptr;
    std::int64_t f32_lanes = 0;  ///< columns of a panel
    std::int64_t f64_lanes = 0;
};

struct TileOps {
    TypedOps<float> f32;
    TypedOps<double> f64;
    CodeOps codes;
    CodeOps bits;
    /// fold_few over rows of 16-bit elements; null where nothing is gained by it.
    void (*fold_few_f16)(const FoldArgs<float>&) = nullptr;
    void (*fold_few_bf16)(const FoldArgs<float>&) = nullptr;
    void (*widen_f16)(const std::byte* row, float* to, std::int64_t dim) = nullptr;
    void (*widen_bf16)(const std::byte* row, float* to, std::int64_t dim) = nullptr;
    void (*widen_f8)(const std::byte* row, float* to, std::int64_t dim) = nullptr;
    /// to[k] = from[k] + the weight of value k of a packed row; of_byte: the `in_byte` weights that each byte stands
    /// for.
    void (*add_weights)(const std::byte* packed, int in_byte, const float* of_byte, const float* from, float* to,
                        std::int64_t dim) = nullptr;
    const ProjectOps* project = nullptr;
};

}  // namespace rowmax::cpu
