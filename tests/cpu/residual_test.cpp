// Residual documents on every row of the table: against the oracle, which decodes bit by bit, in every layout.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "cpu/guarded.hpp"
#include "cpu/residual_sample.hpp"
#include "cpu/sample.hpp"
#include "rowmax/compressed.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

class ResidualGradients : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Cpu, ResidualGradients, ::testing::ValuesIn(all_layouts),
                         [](const auto& chosen) { return std::string(name_of_layout(chosen.param)); });

TEST_P(ResidualGradients, OfQueriesAreExactForSmallNumbers) {
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

/// Whether the request normalises queries as well, and whether the tables do documents.
class ResidualGradient : public ::testing::TestWithParam<std::tuple<Layout, bool, bool>> {
  protected:
    static void expect_near(const Shape& shape, const Residuals& r, double bound) {
        const core::Problem problem = core::make_problem(r.request);
        const core::reference::Scores truth = core::reference::score(problem.params);
        std::vector<double> grad(truth.scores.size());
        for (std::size_t p = 0; p < grad.size(); ++p) grad[p] = static_cast<double>(p % 7) - 2.5;
        const core::reference::Gradient want = core::reference::backward(problem.params, truth.index, grad);
        double largest = 0;
        for (const double x : want.q) largest = std::fmax(largest, std::fabs(x));
        const Array scores(DType::f32, {static_cast<std::int64_t>(grad.size())}, grad);
        for (const core::Kernel* row : residual_rows()) {
            SCOPED_TRACE(row->name);
            const Array got(shape.dtype, {problem.params.q.total_rows, shape.dim}, {-99});
            row->backward(problem.params, {truth.index.data(), scores.view().data, got.view().data, nullptr});
            for (std::size_t i = 0; i < want.q.size(); ++i) ASSERT_NEAR(got[i], want.q[i], bound * largest) << i;
        }
    }
};
INSTANTIATE_TEST_SUITE_P(Every, ResidualGradient,
                         ::testing::Combine(::testing::ValuesIn(all_layouts), ::testing::Bool(), ::testing::Bool()),
                         [](const auto& chosen) {
                             return std::string(name_of_layout(std::get<0>(chosen.param))) +
                                    (std::get<1>(chosen.param) ? "_unit_queries" : "") +
                                    (std::get<2>(chosen.param) ? "_unit_documents" : "");
                         });

TEST_P(ResidualGradient, IsThatOfDecodedTokens) {
    const auto [layout, queries, documents] = GetParam();
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const Shape shape{layout, dtype, 3, 4, 18, 21, 48, true, false, 6};
        SCOPED_TRACE(name_of(dtype));
        Residuals r(shape, 4, BitOrder::little, documents, normal());
        r.request.options.normalize = queries;  // which takes documents along
        expect_near(shape, r, dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 1e-3 : 8e-3);
    }
}

// Query tokens that take part in more pairs than are added in one run.
TEST_P(ResidualGradient, OfManyPairs) {
    const auto [layout, queries, documents] = GetParam();
    const Shape shape{layout, DType::f32, 2, 400, 5, 4, 24, false, false, 8};
    Residuals r(shape, 2, BitOrder::colbert, documents, normal());
    r.request.options.normalize = queries;
    expect_near(shape, r, 2e-6);
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
