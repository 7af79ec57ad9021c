// Requests of every layout with random contents, for tests and `rowmax selftest`, and rows of the CPU table run on
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "core/reference.hpp"
#include "core/registry.hpp"
#include "rowmax/compressed.hpp"
#include "rowmax/maxsim.hpp"
#include "rowmax/projection.hpp"
#include "support/array.hpp"

namespace rowmax::test {

/// How tokens are laid out and which pairs are scored.
enum class Layout { cross, single, grouped, zipped, list, packed, packed_list, ranges };
inline constexpr Layout all_layouts[] = {Layout::cross, Layout::single, Layout::grouped,     Layout::zipped,
                                         Layout::list,  Layout::packed, Layout::packed_list, Layout::ranges};
inline constexpr DType token_types[] = {DType::f32, DType::f16, DType::bf16, DType::f64};

std::string_view name_of_layout(Layout layout);

struct Shape {
    Layout layout = Layout::cross;
    DType dtype = DType::f32;
    std::int64_t queries = 1;
    std::int64_t documents = 1;
    std::int64_t lq = 1;
    std::int64_t ld = 1;
    std::int64_t dim = 1;
    bool masked = false;     ///< both sides, with holes (dense layouts); hidden tokens hold NaN
    bool normalize = false;  ///< of residual codes and hidden states: the documents alone
    unsigned seed = 1;
    bool scale_per_item = false;  ///< int8, float8: one scale an item rather than one a token
    bool residual = false;        ///< uint8: residual codes, with float32 queries, rather than sign bits
    std::int64_t hidden = 0;  ///< documents are hidden states of so many dimensions; every fourth seed without a bias
};
std::ostream& operator<<(std::ostream& out, const Shape& shape);
std::string text_of(const Shape& shape);

using Values = std::function<double(std::mt19937&)>;
/// Whole numbers whose products and sums are exact in every type: |x| <= 3, or 1 for long rows.
Values small_integers(std::int64_t dim);
/// Normal, and uniform in [0, 1).
Values normal();
Values uniform();
/// Whole numbers from -128 to 127, the ends often.
Values any_codes();

/// The largest error of a score of random float8 codes by a row of the table, in parts of the sum of |q| |d_win|:
/// Hopper's float8 unit keeps about 13 bits of what it adds (docs/numerics.md).
double float8_bound(const core::Kernel& row, std::int64_t dim);

/// A request and the arrays that it points into.
class Sample {
  public:
    Sample(const Shape& shape, const Values& values);
    Sample(const Sample&) = delete;  ///< the request points into it
    Sample& operator=(const Sample&) = delete;
    ScoreRequest request;
    [[nodiscard]] const Shape& shape() const { return shape_; }

  private:
    TensorView keep(DType dtype, std::vector<std::int64_t> shape, const std::vector<double>& values);
    TensorView query_tokens(std::vector<std::int64_t> shape, const Values& values);
    TensorView document_tokens(std::vector<std::int64_t> shape, const Values& values);
    TensorView tokens(DType dtype, std::vector<std::int64_t> shape, const Values& values);
    TensorView bytes(std::vector<std::int64_t> shape, int bits);
    void residual_tables(const Values& values);
    void projection(const Values& values);
    TensorView mask(Array& tokens, std::vector<std::int64_t> shape);
    void scale(TokenSet& side);
    TensorView offsets(std::int64_t items, std::int64_t longest, std::int64_t& total);
    void dense(const Values& values);
    void packed(const Values& values);
    void ranges(const Values& values);
    void pair_list();

    Shape shape_;
    std::mt19937 random_;
    std::deque<Array> arrays_;
    ResidualTables tables_;
    Projection projection_;
};

struct Results {
    Array scores;
    Array index;
    Array similarity;
};

enum class Want { scores, index, all };

/// Results filled with what no kernel writes.
Results no_results(const core::Params& params, Want want);

/// Runs one row of the CPU's table.
Results run_on_cpu(const core::Kernel& row, const core::Problem& problem, Want want = Want::all, int threads = 1);

// Which rows are under test is the program's choice: tests/cpu/rows.cpp, tests/cuda/rows.cpp.

/// Runs one row of the table on a problem.
Results run(const core::Kernel& row, const core::Problem& problem, Want want = Want::all, int threads = 1);

/// The rows that this machine can run and that take this type.
std::vector<const core::Kernel*> rows_for(DType dtype);

/// Those whose names end so.
std::vector<const core::Kernel*> rows_named(std::string_view end);

/// Same bits, NaN included.
bool same_bits(const Array& a, const Array& b);

}  // namespace rowmax::test
