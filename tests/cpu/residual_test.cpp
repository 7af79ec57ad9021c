// Residual documents on every row of the table: against the oracle, which decodes bit by bit, in every layout.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/guarded.hpp"
#include "cpu/sample.hpp"
#include "rowmax/compressed.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

/// A request of some layout whose documents were replaced by residuals.
class Residuals {
  public:
    Residuals(const Shape& shape, int nbits, BitOrder order, bool normalize, const Values& values,
              std::int64_t centroids = 9, DType centroid_dtype = DType::f32)
        : sample_(shape, values),
          random_(shape.seed),
          centroids_(Array::generated(centroid_dtype, {centroids, shape.dim}, [&] { return values(random_); })),
          weights_(Array::generated(DType::f32, {std::int64_t{1} << nbits}, [&] { return values(random_); })),
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

std::vector<const core::Kernel*> residual_rows() {
    std::vector<const core::Kernel*> rows;
    for (const core::Kernel& row : core::cpu_kernels()) {
        if (row.name.ends_with(".residual") && row.missing_features().empty()) rows.push_back(&row);
    }
    return rows;
}

class ResidualLayouts : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Cpu, ResidualLayouts, ::testing::ValuesIn(all_layouts),
                         [](const auto& chosen) { return std::string(name_of_layout(chosen.param)); });

TEST_P(ResidualLayouts, SmallNumbersAreExact) {
    unsigned seed = 1;
    for (const int nbits : {1, 2, 4, 8}) {
        for (const BitOrder order : {BitOrder::little, BitOrder::colbert}) {
            for (const std::int64_t lq : {1, 9, 33}) {
                const Shape shape{GetParam(), DType::f32, 3, 4, lq, 50, 40, true, false, ++seed};
                SCOPED_TRACE(::testing::PrintToString(shape));
                const Residuals r(shape, nbits, order, false, small_integers(300));
                const core::Problem problem = core::make_problem(r.request);
                const core::reference::Scores truth = core::reference::score(problem.params);
                for (const core::Kernel* row : residual_rows()) {
                    SCOPED_TRACE(row->name);
                    const Results got = run(*row, problem);
                    EXPECT_EQ(got.scores.values(), truth.scores);
                    EXPECT_EQ(got.similarity.values(), truth.similarity);
                    EXPECT_EQ(got.index.values(), (std::vector<double>(truth.index.begin(), truth.index.end())));
                }
            }
        }
    }
}

TEST_P(ResidualLayouts, NormalisedTokensAreWithinTheBound) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const Shape shape{GetParam(), dtype, 3, 4, 20, 50, 128, true, false, 5};
        const Residuals r(shape, 4, BitOrder::colbert, true, normal(), 300, dtype);
        const core::Problem problem = core::make_problem(r.request);
        const core::reference::Scores truth = core::reference::score(problem.params);
        const Results first = run(*residual_rows().front(), problem);
        for (std::size_t p = 0; p < truth.scores.size(); ++p) {
            EXPECT_LE(std::fabs(first.scores[p] - truth.scores[p]), 7e-7 * truth.scale[p]) << name_of(dtype);
        }
        for (const core::Kernel* row : residual_rows()) {
            EXPECT_TRUE(same_bits(run(*row, problem, Want::all, 2).similarity, first.similarity)) << row->name;
        }
    }
}

TEST_P(ResidualLayouts, GradientsOfQueriesAreExactForSmallNumbers) {
    for (const DType dtype : {DType::f32, DType::f16}) {
        const Shape shape{GetParam(), dtype, 3, 4, 18, 21, 40, true, false, 6};
        const Residuals r(shape, 2, BitOrder::colbert, false, small_integers(300));
        core::Problem problem = core::make_problem(r.request);
        const core::reference::Scores truth = core::reference::score(problem.params);
        std::vector<double> grad(truth.scores.size());
        for (std::size_t p = 0; p < grad.size(); ++p) grad[p] = static_cast<double>(p % 5) - 2;
        const core::reference::Gradient want = core::reference::backward(problem.params, truth.index, grad);
        const Array scores(DType::f32, {static_cast<std::int64_t>(grad.size())},
                           grad.empty() ? std::vector<double>{0} : grad);
        for (const core::Kernel* row : residual_rows()) {
            SCOPED_TRACE(row->name);
            const Array got(dtype, {problem.params.q.total_rows, shape.dim}, {-99});
            core::Gradients gradients{truth.index.data(), scores.view().data, got.view().data, nullptr};
            row->backward(problem.params, gradients);
            EXPECT_EQ(got.values(), want.q);
        }
    }
}

// Cosines, whether or not tokens are normalised when they are decoded.
TEST(Residual, NormalizeOfTheRequest) {
    for (const bool decoded : {false, true}) {
        Residuals r({Layout::cross, DType::f32, 3, 4, 18, 21, 48, false, false, 6}, 4, BitOrder::little, decoded,
                    normal());
        r.request.options.normalize = true;
        const core::Problem problem = core::make_problem(r.request);
        const core::reference::Scores truth = core::reference::score(problem.params);
        for (const core::Kernel* row : residual_rows()) {
            const Results got = run(*row, problem);
            for (std::size_t p = 0; p < truth.scores.size(); ++p) {
                EXPECT_NEAR(got.scores[p], truth.scores[p], 7e-7 * truth.scale[p]) << row->name;
            }
        }
    }
}

class ResidualGradient : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Normalize, ResidualGradient, ::testing::Bool());

TEST_P(ResidualGradient, ThroughNormalisedTokens) {
    const Shape shape{Layout::cross, DType::f32, 3, 4, 18, 21, 48, true, false, 6};
    Residuals r(shape, 4, BitOrder::little, true, normal());
    r.request.options.normalize = GetParam();  // of queries as well
    const core::Problem problem = core::make_problem(r.request);
    const core::reference::Scores truth = core::reference::score(problem.params);
    const std::vector<double> grad(truth.scores.size(), 1.5);
    const core::reference::Gradient want = core::reference::backward(problem.params, truth.index, grad);
    const Array scores(DType::f32, {static_cast<std::int64_t>(grad.size())}, grad);
    const Array got(DType::f32, {problem.params.q.total_rows, shape.dim});
    residual_rows().front()->backward(problem.params,
                                      {truth.index.data(), scores.view().data, got.view().data, nullptr});
    for (std::size_t i = 0; i < want.q.size(); ++i) EXPECT_NEAR(got[i], want.q[i], 1e-5);
}

// Whole queries that stay in L2 only piece by piece, on several threads, and documents that are cut.
TEST(Residual, LongQueriesAndDocuments) {
    const Shape shape{Layout::cross, DType::f32, 1, 1, 1300, 3000, 128, false, false, 3};
    const Residuals r(shape, 2, BitOrder::colbert, true, normal());
    const core::Problem problem = core::make_problem(r.request);
    const core::Kernel& row = *residual_rows().front();
    EXPECT_TRUE(same_bits(run(row, problem, Want::all, 1).similarity, run(row, problem, Want::all, 4).similarity));
}

TEST(Residual, NothingIsReadBehindTheEnd) {
    for (const int nbits : {1, 2, 4, 8}) {
        const Shape shape{Layout::cross, DType::f32, 2, 3, 9, 21, 24, false, false, 3};
        const Residuals tidy(shape, nbits, BitOrder::colbert, true, normal());
        ScoreRequest request = tidy.request;
        ResidualTables tables = *request.d.residual;
        const Guarded memory[] = {Guarded(bytes_of(request.d.tokens)), Guarded(bytes_of(request.d.codes)),
                                  Guarded(bytes_of(tables.centroids)), Guarded(bytes_of(tables.bucket_weights))};
        request.d.tokens = copy_to(memory[0].data(), request.d.tokens);
        request.d.codes = copy_to(memory[1].data(), request.d.codes);
        tables.centroids = copy_to(memory[2].data(), tables.centroids);
        tables.bucket_weights = copy_to(memory[3].data(), tables.bucket_weights);
        request.d.residual = &tables;
        for (const core::Kernel* row : residual_rows()) {
            EXPECT_TRUE(same_bits(run(*row, core::make_problem(request)).similarity,
                                  run(*row, core::make_problem(tidy.request)).similarity));
        }
    }
}

TEST(Residual, TopKOfChunks) {
    const Residuals r({Layout::cross, DType::f32, 2, 30, 9, 11, 40, true, false, 7}, 4, BitOrder::colbert, true,
                      normal());
    const Array scores(DType::f32, {2, 5});
    const Array index(DType::i64, {2, 5});
    const Array chunked(DType::f32, {2, 5});
    const Array chunked_index(DType::i64, {2, 5});
    topk(r.request.q, r.request.d, 5, 0, r.request.options, scores.view(), index.view());
    topk(r.request.q, r.request.d, 5, 7, r.request.options, chunked.view(), chunked_index.view());
    EXPECT_EQ(scores.values(), chunked.values());
    EXPECT_EQ(index.values(), chunked_index.values());
}

TEST(Residual, LengthsAreAPrefixMask) {
    const Residuals r({Layout::cross, DType::f32, 2, 3, 9, 11, 40, false, false, 8}, 4, BitOrder::colbert, true,
                      normal());
    const Array lengths(DType::i32, {3}, {11, 0, 4});
    std::vector<double> prefix;
    for (const double length : {11, 0, 4}) {
        for (int t = 0; t < 11; ++t) prefix.push_back(t < length ? 1 : 0);
    }
    const Array mask(DType::boolean, {3, 11}, prefix);
    ScoreRequest by_mask = r.request;
    by_mask.d.mask = mask.view();
    ScoreRequest by_length = r.request;
    by_length.d.lengths = lengths.view();
    const core::Kernel& row = *residual_rows().front();
    EXPECT_TRUE(same_bits(run(row, core::make_problem(by_mask)).similarity,
                          run(row, core::make_problem(by_length)).similarity));
    by_length.d.mask = mask.view();
    EXPECT_ERROR(result_shape(by_length), invalid_value, "doc_lengths", "d_mask");
}

TEST(Residual, DimensionsAreOneTo4096) {
    const Array weights(DType::f32, {2}, {-1, 1});
    const ResidualTables tables{{}, weights.view(), 1, BitOrder::little, false};
    for (const std::int64_t dim : {0, 4097}) {
        const Array q(DType::f32, {2, dim});
        const Array d(DType::u8, {3, 5, (dim + 7) / 8});
        ScoreRequest request;
        request.q.tokens = q.view();
        request.d.tokens = d.view();
        request.d.residual = &tables;
        EXPECT_ERROR(result_shape(request), invalid_value, "1 to 4096", std::to_string(dim));
    }
}

TEST(Residual, WhatDoesNotFitIsNamed) {
    const Residuals r({Layout::cross, DType::f32, 2, 3, 4, 5, 16, false, false, 3}, 4, BitOrder::colbert, true,
                      normal(), 9);
    ScoreRequest request = r.request;
    const Array codes(DType::i64, {3, 5}, {0, 1, 9});
    request.d.codes = codes.view();
    EXPECT_ERROR(result_shape(request), invalid_value, "codes", "token 2", "document 0", "9 centroids");
    request.options.validate = false;
    EXPECT_NO_THROW(result_shape(request));
    ResidualTables tables = *request.d.residual;
    request.d.residual = &tables;
    tables.nbits = 16;
    EXPECT_ERROR(result_shape(request), invalid_value, "nbits", "16");
    tables.nbits = 2;
    EXPECT_ERROR(result_shape(request), invalid_value, "bucket_weights", "[16]", "[4]");
    request = r.request;
    EXPECT_ERROR(score(request, {TensorView(request.d.residual->centroids.data, DType::f32, {2, 3}), {}, {}}),
                 invalid_value, "out", "centroids");
    const Array grad(DType::f32, {2, 3});
    const Array index(DType::i32, {2, 3, 4});
    const Array grad_d(DType::u8, {3, 5, 8});
    EXPECT_ERROR(score_backward(request, index.view(), grad.view(), {}, grad_d.view()), not_implemented, "grad_d");
    request.d.residual = nullptr;
    EXPECT_ERROR(result_shape(request), invalid_type, "D", "uint8");
}

}  // namespace
}  // namespace rowmax::test
