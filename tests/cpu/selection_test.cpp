// What keeps more than the maximum: every row gives the same bits, with any threads; where it must be MaxSim it is.
#include "rowmax/selection.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/sample.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

constexpr Layout layouts[] = {Layout::cross, Layout::single, Layout::grouped,    Layout::zipped,
                              Layout::list,  Layout::packed, Layout::packed_list};

/// Of every layout and type, large enough for tails of tiles, several blocks of rows and several chains.
std::vector<Shape> shapes(bool normalize) {
    std::vector<Shape> all;
    for (const Layout layout : layouts) {
        for (const DType dtype : token_types) {
            all.push_back({layout, dtype, 3, 2, 37, 61, 41, true, normalize, 7});
            all.push_back({layout, dtype, 2, 3, 5, 130, 19, false, normalize, 8});
        }
    }
    return all;
}

struct Selected {
    std::vector<Array> arrays;
};

bool same(const Selected& a, const Selected& b) {
    bool equal = a.arrays.size() == b.arrays.size();
    for (std::size_t i = 0; equal && i < a.arrays.size(); ++i) equal = same_bits(a.arrays[i], b.arrays[i]);
    return equal;
}

std::vector<std::int64_t> with(std::vector<std::int64_t> shape, std::int64_t last) {
    shape.push_back(last);
    return shape;
}

std::vector<std::int64_t> before(std::int64_t first, std::vector<std::int64_t> shape) {
    shape.insert(shape.begin(), first);
    return shape;
}

std::vector<std::int64_t> shape_of(const TensorView& view) {
    return {view.shape.begin(), view.shape.begin() + view.ndim};
}

Array gradient_of(const TensorView& tokens) {
    return {tokens.dtype, shape_of(tokens), {5}};
}

Selected top_tokens(const ScoreRequest& request, std::int64_t k, TokenReduction reduction) {
    const ResultShape shape = result_shape(request);
    Array scores(shape.dtype, shape.scores, {7});
    Array index(DType::i32, with(shape.tokens, k), {7});
    score_topk_tokens(request, k, reduction, scores.view(), index.view());
    const Array gradient(shape.dtype, shape.scores, {1, -2, 0.5});
    Array q = gradient_of(request.q.tokens);
    Array d = gradient_of(request.d.tokens);
    score_topk_tokens_backward(request, k, reduction, index.view(), gradient.view(), q.view(), d.view());
    return {{scores, index, q, d}};
}

Selected smooth(const ScoreRequest& request, double temperature) {
    const ResultShape shape = result_shape(request);
    Array scores(shape.dtype, shape.scores, {7});
    Array tokens(shape.dtype, before(2, shape.tokens), {7});
    score_smooth(request, temperature, scores.view(), tokens.view());
    const Array gradient(shape.dtype, shape.scores, {1, -2, 0.5});
    Array q = gradient_of(request.q.tokens);
    Array d = gradient_of(request.d.tokens);
    score_smooth_backward(request, temperature, tokens.view(), gradient.view(), q.view(), d.view());
    return {{scores, tokens, q, d}};
}

Selected prefixes(const ScoreRequest& request, const std::vector<std::int64_t>& dims) {
    const ResultShape shape = result_shape(request);
    const auto count = static_cast<std::int64_t>(dims.size());
    Array scores(shape.dtype, before(count, shape.scores), {7});
    Array index(DType::i32, before(count, shape.tokens), {7});
    score_prefixes(request, dims, scores.view(), index.view());
    return {{scores, index}};
}

Selected xtr(const ScoreRequest& request, std::int64_t k, Imputation imputation) {
    const ResultShape shape = result_shape(request);
    Array scores(shape.dtype, shape.scores, {7});
    Array index(DType::i32, shape.tokens, {7});
    score_xtr(request, k, imputation, scores.view(), index.view(), {}, {});
    return {{scores, index}};
}

Selected maximum(const ScoreRequest& request) {
    const ResultShape shape = result_shape(request);
    Array scores(shape.dtype, shape.scores, {7});
    Array index(DType::i32, shape.tokens, {7});
    score(request, {scores.view(), index.view(), {}});
    return {{scores, index}};
}

/// Runs f on every row that can, with one and with three threads, and expects the bits of the first run.
template <class F>
void expect_same_everywhere(ScoreRequest request, F f) {
    std::vector<Selected> first;
    for (const core::Kernel* row : rows_for(request.q.tokens.dtype)) {
        for (const int threads : {1, 3}) {
            request.options.kernel = row->name;
            request.options.threads = threads;
            Selected found = f(request);
            if (first.empty()) first.push_back(found);
            EXPECT_TRUE(same(found, first.front())) << row->name << ", " << threads << " threads";
        }
    }
}

TEST(Selection, EveryRowAndAnyThreadsGiveTheSameBits) {
    for (const bool normalize : {false, true}) {
        for (const Shape& shape : shapes(normalize)) {
            SCOPED_TRACE(text_of(shape));
            const Sample sample(shape, normal());
            const ScoreRequest& request = sample.request;
            expect_same_everywhere(request, [](const auto& r) { return top_tokens(r, 3, TokenReduction::mean); });
            expect_same_everywhere(request, [](const auto& r) { return smooth(r, 0.3); });
            if (!normalize) expect_same_everywhere(request, [](const auto& r) { return prefixes(r, {3, 8, 17}); });
            if (request.pairing == Pairing::cross || request.pairing == Pairing::grouped) {
                expect_same_everywhere(request, [](const auto& r) { return xtr(r, 40, Imputation::last); });
                expect_same_everywhere(request, [](const auto& r) { return xtr(r, 9, Imputation::none); });
            }
        }
    }
}

TEST(Selection, TheBestTokenAloneIsMaxSim) {
    for (const bool normalize : {false, true}) {
        for (const Shape& shape : shapes(normalize)) {
            SCOPED_TRACE(text_of(shape));
            const Sample sample(shape, normal());
            const Selected wanted = maximum(sample.request);
            for (const TokenReduction reduction : {TokenReduction::mean, TokenReduction::sum}) {
                const Selected found = top_tokens(sample.request, 1, reduction);
                EXPECT_TRUE(same_bits(found.arrays[0], wanted.arrays[0]));
                EXPECT_EQ(found.arrays[1].values(), wanted.arrays[1].values());
            }
        }
    }
}

TEST(Selection, PrefixesAreMaxSimOfShorterTokens) {
    const std::vector<std::int64_t> dims = {1, 7, 8, 9, 16, 32, 33, 71, 72};
    for (const Layout layout : layouts) {
        for (const DType dtype : token_types) {
            const Shape shape{layout, dtype, 2, 3, 11, 60, 72, layout != Layout::packed, false, 3};
            SCOPED_TRACE(text_of(shape));
            const Sample sample(shape, normal());
            const Selected found = prefixes(sample.request, dims);
            const std::size_t scores = found.arrays[0].size() / dims.size();
            const std::size_t tokens = found.arrays[1].size() / dims.size();
            for (std::size_t p = 0; p < dims.size(); ++p) {
                ScoreRequest shorter = sample.request;
                for (TokenSet* side : {&shorter.q, &shorter.d}) {
                    side->tokens.shape[static_cast<std::size_t>(side->tokens.ndim - 1)] = dims[p];
                }
                const Selected wanted = maximum(shorter);
                for (std::size_t i = 0; i < scores; ++i) {
                    EXPECT_EQ(found.arrays[0][p * scores + i], wanted.arrays[0][i]) << dims[p] << " dimensions";
                }
                for (std::size_t i = 0; i < tokens; ++i) {
                    EXPECT_EQ(found.arrays[1][p * tokens + i], wanted.arrays[1][i]);
                }
            }
        }
    }
}

TEST(Selection, LongQueriesAreTakenInSlices) {
    const Shape shape{Layout::cross, DType::f32, 1, 2, 1030, 70, 512, true, false, 5};
    const Sample sample(shape, small_integers(shape.dim));
    const Selected wanted = maximum(sample.request);
    EXPECT_TRUE(same_bits(top_tokens(sample.request, 1, TokenReduction::sum).arrays[0], wanted.arrays[0]));
    EXPECT_TRUE(same_bits(prefixes(sample.request, {shape.dim}).arrays[0], wanted.arrays[0]));
    expect_same_everywhere(sample.request, [](const auto& r) { return smooth(r, 20); });
    expect_same_everywhere(sample.request, [](const auto& r) { return xtr(r, 60, Imputation::last); });
}

TEST(Selection, NamesWhatIsWrong) {
    const Sample sample({Layout::cross, DType::f32, 2, 3, 4, 5, 6}, normal());
    const ScoreRequest& request = sample.request;
    const Array scores(DType::f32, {2, 3});
    const Array index(DType::i32, {2, 3, 4, 2});
    const auto mean = TokenReduction::mean;
    EXPECT_ERROR(score_topk_tokens(request, 0, mean, scores.view(), {}), invalid_value, "k", "0");
    EXPECT_ERROR(score_topk_tokens(request, 3, mean, scores.view(), index.view()), invalid_value, "index", "3]", "2]");
    EXPECT_ERROR(score_topk_tokens(request, 2, mean, index.view(), {}), invalid_type, "out", "float32", "int32");
    for (const double temperature : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
        EXPECT_ERROR(score_smooth(request, temperature, scores.view(), {}), invalid_value, "temperature");
    }
    using Dims = std::vector<std::int64_t>;
    for (const Dims& dims : {Dims{}, Dims{0, 2}, Dims{2, 2}, Dims{3, 2}, Dims{7}}) {
        EXPECT_ERROR(score_prefixes(request, dims, scores.view(), {}), invalid_value, "dims", "d = 6");
    }
    EXPECT_ERROR(score_xtr(request, 1, Imputation::last, scores.view(), {}, index.view(), {}), invalid_type,
                 "last_document", "int64");
    const Sample pairs({Layout::zipped, DType::f32, 2, 2, 4, 5, 6}, normal());
    EXPECT_ERROR(score_xtr(pairs.request, 1, Imputation::last, scores.view(), {}, {}, {}), invalid_value, "pairing");
    const Sample ranges({Layout::ranges, DType::f32, 1, 2, 4, 5, 6}, normal());
    EXPECT_ERROR(score_smooth(ranges.request, 1, scores.view(), {}), not_implemented, "ranges");
    ScoreRequest normalized = request;
    normalized.options.normalize = true;
    EXPECT_ERROR(score_prefixes(normalized, Dims{2}, scores.view(), {}), not_implemented, "normalize");
    const Sample codes({Layout::cross, DType::i8, 2, 3, 4, 5, 6}, small_integers(6));
    EXPECT_ERROR(score_smooth(codes.request, 1, scores.view(), {}), not_implemented, "compressed");
}

}  // namespace
}  // namespace rowmax::test
