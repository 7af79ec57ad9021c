#include "cli/token_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/element.hpp"
#include "core/problem.hpp"

namespace rowmax::cli {

namespace {

class Norms {
  public:
    explicit Norms(NormStatistics& result) : result_(result) {
        result_.least = std::numeric_limits<double>::infinity();
    }

    void add(const std::byte* row, DType dtype, std::int64_t dim) {
        double squares = 0;
        bool nan = false;
        for (std::int64_t i = 0; i < dim; ++i, row += size_of(dtype)) {
            const double value = core::read_element(row, dtype);
            nan = nan || std::isnan(value);
            squares += value * value;
        }
        ++result_.tokens;
        result_.nan += nan ? 1 : 0;
        result_.infinite += !nan && std::isinf(squares) ? 1 : 0;
        result_.zero += squares == 0 ? 1 : 0;
        if (std::isfinite(squares)) add_finite(std::sqrt(squares));
    }

    void finish() {
        result_.mean = finite_ == 0 ? 0 : sum_ / static_cast<double>(finite_);
        if (finite_ == 0) result_.least = 0;
    }

  private:
    void add_finite(double norm) {
        ++finite_;
        sum_ += norm;
        result_.least = std::min(result_.least, norm);
        result_.largest = std::max(result_.largest, norm);
    }
    NormStatistics& result_;
    std::int64_t finite_ = 0;
    double sum_ = 0;
};

// Items [first, last) as the kernels would see them.
void add_block(const io::TokenSource& source, std::int64_t first, std::int64_t last, Norms& norms,
               NormStatistics& result) {
    const io::TokenBlock block = source.block(first, last);
    ScoreRequest request;
    request.q = block.set;
    request.d = block.set;
    const core::Params params = core::make_problem(request).params;
    for (std::int64_t item = 0; item < params.d.count; ++item) {
        const core::Segment segment = params.d.at(item);
        for (std::int64_t t = 0; t < segment.length; ++t) {
            if (params.d.keeps(segment, t)) {
                norms.add(segment.data + t * params.d.row_stride, params.dtype, params.dim);
            } else {
                ++result.hidden;
            }
        }
    }
}

}  // namespace

NormStatistics token_norms(const io::TokenSource& source, const io::ProgressFn& progress) {
    constexpr std::int64_t items_per_block = 256;
    NormStatistics result;
    Norms norms(result);
    for (std::int64_t first = 0; first < source.count(); first += items_per_block) {
        const std::int64_t last = std::min(first + items_per_block, source.count());
        add_block(source, first, last, norms, result);
        progress(last, source.count());
    }
    norms.finish();
    return result;
}

LengthHistogram item_lengths(const io::TokenSource& source) {
    LengthHistogram result;
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < source.count(); ++i) lengths.push_back(source.length(i));
    if (lengths.empty()) return result;
    std::sort(lengths.begin(), lengths.end());
    result.least = lengths.front();
    result.median = lengths[lengths.size() / 2];
    result.largest = lengths.back();
    auto from = lengths.begin();
    for (std::int64_t bound = 0; from != lengths.end(); bound = std::max<std::int64_t>(2 * bound, 1)) {
        const auto to = std::upper_bound(from, lengths.end(), bound);
        if (to != from) result.bins.push_back({bound, to - from});
        from = to;
    }
    return result;
}

}  // namespace rowmax::cli
