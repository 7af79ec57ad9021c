// Residual documents of every layout, for the tests of all rows.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "cpu/sample.hpp"
#include "rowmax/compressed.hpp"

namespace rowmax::test {

/// A request of some layout whose documents were replaced by residuals.
class Residuals {
  public:
    Residuals(const Shape& shape, int nbits, BitOrder order, bool normalize, const Values& values,
              std::int64_t centroids = 9, DType table = DType::f32)
        : sample_(shape, values),
          random_(shape.seed),
          centroids_(Array::generated(table, {centroids, shape.dim}, [&] { return values(random_); })),
          weights_(Array::generated(table, {std::int64_t{1} << nbits}, [&] { return values(random_); })),
          tables_{centroids_.view(), weights_.view(), nbits, order, normalize},
          request(sample_.request) {
        TokenSet& d = request.d;
        std::vector<std::int64_t> tokens(d.tokens.shape.begin(), d.tokens.shape.begin() + d.tokens.ndim - 1);
        codes_ = std::make_unique<Array>(Array::generated(shape.seed % 2 == 0 ? DType::i32 : DType::i64, tokens, [&] {
            return std::uniform_int_distribution<int>(0, static_cast<int>(centroids) - 1)(random_);
        }));
        tokens.push_back(shape.dim * nbits / 8);
        bytes_ = std::make_unique<Array>(
            Array::generated(DType::u8, tokens, [&] { return std::uniform_int_distribution(0, 255)(random_); }));
        d.tokens = bytes_->view();
        d.codes = codes_->view();
        d.residual = &tables_;
    }

  private:
    Sample sample_;
    std::mt19937 random_;
    Array centroids_;
    Array weights_;
    ResidualTables tables_;
    std::unique_ptr<Array> codes_;
    std::unique_ptr<Array> bytes_;

  public:
    ScoreRequest request;
};

/// The rows under test.
inline std::vector<const core::Kernel*> residual_rows() {
    return rows_named(".residual");
}

}  // namespace rowmax::test
