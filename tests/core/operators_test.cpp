// score() and topk() through the public interface, whatever kernel runs.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "core/problem.hpp"
#include "core/reference.hpp"
#include "core/topk.hpp"
#include "support/array.hpp"
#include "support/throws.hpp"

namespace rowmax {
namespace {

using test::Array;
using Values = std::vector<double>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Values small_integers(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    Values values(count);
    for (double& x : values) x = static_cast<double>(random() % 7) - 3;
    return values;
}

class TopKCallTest : public ::testing::Test {
  protected:
    struct Result {
        Values scores;
        Values index;
    };

    Result best(std::int64_t k, std::int64_t chunk, DType dtype = DType::f32) {
        const std::int64_t kept = std::min<std::int64_t>(k, 50);
        const Array q(dtype, {3, 4, 8}, small_integers(96, 1));
        const Array d(dtype, {50, 6, 8}, small_integers(48 * 20, 2));  // repeats, so scores tie
        const Array scores(dtype == DType::f64 ? DType::f64 : DType::f32, {3, kept}, {nan});
        const Array index(DType::i64, {3, kept}, {-7});
        TokenSet queries;
        TokenSet documents;
        queries.tokens = q.view();
        documents.tokens = d.view();
        topk(queries, documents, k, chunk, {}, scores.view(), index.view());
        return {scores.values(), index.values()};
    }

    // All scores by the oracle, sorted.
    static Result sorted_scores(std::int64_t k) {
        const Array q(DType::f32, {3, 4, 8}, small_integers(96, 1));
        const Array d(DType::f32, {50, 6, 8}, small_integers(48 * 20, 2));
        ScoreRequest request;
        request.q.tokens = q.view();
        request.d.tokens = d.view();
        const core::Problem problem = core::make_problem(request);
        const Values scores = core::reference::score(problem.params).scores;
        core::TopK selection(3, k);
        for (std::int64_t p = 0; p < 150; ++p) selection.push(p / 50, scores[static_cast<std::size_t>(p)], p % 50);
        Result result;
        for (std::int64_t i = 0; i < 3; ++i) {
            for (const core::Hit& hit : selection.ranked(i)) {
                result.scores.push_back(hit.score);
                result.index.push_back(static_cast<double>(hit.document));
            }
        }
        return result;
    }
};

TEST_F(TopKCallTest, EqualsTheSortedScores) {
    for (const std::int64_t k : {1, 7, 50}) {
        const Result want = sorted_scores(k);
        for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
            const Result got = best(k, 0, dtype);
            EXPECT_EQ(got.scores, want.scores) << name_of(dtype) << ", k = " << k;
            EXPECT_EQ(got.index, want.index) << name_of(dtype) << ", k = " << k;
        }
    }
}

TEST_F(TopKCallTest, ChunksDoNotMatter) {
    const Result whole = best(9, 0);
    for (const std::int64_t chunk : {1, 7, 49, 50, 1000}) {
        EXPECT_EQ(best(9, chunk).index, whole.index) << chunk;
        EXPECT_EQ(best(9, chunk).scores, whole.scores) << chunk;
    }
}

TEST_F(TopKCallTest, KIsCutToTheDocuments) {
    EXPECT_EQ(best(std::numeric_limits<std::int64_t>::max(), 0).index, best(50, 0).index);
}

class TopKLayoutTest : public ::testing::Test {
  protected:
    static Values index_of(const TokenSet& q, const TokenSet& d, std::int64_t k, std::int64_t chunk) {
        const Array scores(DType::f32, {1, k});
        const Array index(DType::i64, {1, k});
        topk(q, d, k, chunk, {}, scores.view(), index.view());
        return index.values();
    }
    Array q{DType::f32, {1, 2}, {1, 0}};
    Array d{DType::f32, {6, 2}, {1, 0, 5, 0, 2, 0, 4, 0, 3, 0, 6, 0}};
};

TEST_F(TopKLayoutTest, PackedRangesAndMasks) {
    TokenSet queries;
    queries.tokens = q.view();
    TokenSet packed;
    packed.tokens = d.view();
    const Array cu(DType::i32, {5}, {0, 1, 1, 4, 6});  // best: 1, none (0), 5, 6
    packed.cu_seqlens = cu.view();
    TokenSet ranges;
    ranges.tokens = d.view();
    const Array starts(DType::i64, {3}, {2, 0, 4});
    const Array lengths(DType::i32, {3}, {1, 2, 0});  // best: 2, 5, none (0)
    ranges.offsets = starts.view();
    ranges.lengths = lengths.view();
    TokenSet masked;
    masked.tokens = TensorView(d.view().data, DType::f32, {3, 2, 2});
    const Array mask(DType::boolean, {3, 2}, {1, 0, 1, 1, 0, 0});  // best: 1, 4, none (0)
    masked.mask = mask.view();
    for (const std::int64_t chunk : {0, 1, 2, 3}) {
        EXPECT_EQ(index_of(queries, packed, 4, chunk), (Values{3, 2, 0, 1})) << chunk;
        EXPECT_EQ(index_of(queries, ranges, 3, chunk), (Values{1, 0, 2})) << chunk;
        EXPECT_EQ(index_of(queries, masked, 3, chunk), (Values{1, 0, 2})) << chunk;
    }
}

TEST_F(TopKLayoutTest, NothingToRank) {
    TokenSet queries;
    TokenSet documents;
    queries.tokens = q.view();
    documents.tokens = TensorView(nullptr, DType::f32, {0, 3, 2});
    EXPECT_NO_THROW(topk(queries, documents, 5, 0, {}, TensorView(nullptr, DType::f32, {1, 0}),
                         TensorView(nullptr, DType::i64, {1, 0})));
}

TEST_F(TopKLayoutTest, Errors) {
    TokenSet side;
    side.tokens = q.view();
    const Array scores(DType::f32, {1, 1});
    const Array index(DType::i64, {1, 1});
    const auto call = [&](std::int64_t k, std::int64_t chunk, const TensorView& s, const TensorView& i) {
        topk(side, side, k, chunk, {}, s, i);
    };
    EXPECT_ERROR(call(0, 0, scores.view(), index.view()), invalid_value, "k must be at least 1", "0");
    EXPECT_ERROR(call(1, -1, scores.view(), index.view()), invalid_value, "chunk", "-1");
    EXPECT_ERROR(call(1, 0, {}, index.view()), invalid_value, "scores is missing");
    EXPECT_ERROR(call(1, 0, index.view(), index.view()), invalid_type, "scores", "float32", "int64");
    EXPECT_ERROR(call(1, 0, scores.view(), scores.view()), invalid_type, "index", "int64", "float32");
    EXPECT_ERROR(call(1, 0, TensorView(nullptr, DType::f32, {1, 1}), index.view()), invalid_value, "scores", "null");
    EXPECT_ERROR(call(1, 0, TensorView(scores.view().data, DType::f32, {1, 2}), index.view()), invalid_value, "[1, 1]",
                 "[1, 2]");
}

TEST(ScoreTest, NoPairsIsNoWork) {
    const Array q(DType::f32, {0, 3, 8});
    const Array d(DType::f32, {4, 5, 8});
    ScoreRequest request;
    request.q.tokens = q.view();
    request.d.tokens = d.view();
    EXPECT_NO_THROW(score(request, {TensorView(nullptr, DType::f32, {0, 4}), {}, {}}));
}

TEST(ScoreTest, EveryLayoutGivesTheSameNumbers) {
    const Array q(DType::f32, {2, 3, 8}, small_integers(48, 3));
    const Array d(DType::f32, {2, 5, 8}, small_integers(80, 4));
    const Array scores(DType::f32, {2, 2});
    ScoreRequest dense;
    dense.q.tokens = q.view();
    dense.d.tokens = d.view();
    score(dense, {scores.view(), {}, {}});

    ScoreRequest packed;
    const Array cu_q(DType::i64, {3}, {0, 3, 6});
    const Array cu_d(DType::i32, {3}, {0, 5, 10});
    packed.q.tokens = TensorView(q.view().data, DType::f32, {6, 8});
    packed.d.tokens = TensorView(d.view().data, DType::f32, {10, 8});
    packed.q.cu_seqlens = cu_q.view();
    packed.d.cu_seqlens = cu_d.view();
    const Array packed_scores(DType::f32, {2, 2});
    score(packed, {packed_scores.view(), {}, {}});
    EXPECT_EQ(packed_scores.values(), scores.values());

    ScoreRequest listed = dense;
    const Array pair_q(DType::i32, {4}, {0, 0, 1, 1});
    const Array pair_d(DType::i32, {4}, {0, 1, 0, 1});
    listed.pairing = Pairing::list;
    listed.pair_q = pair_q.view();
    listed.pair_d = pair_d.view();
    const Array listed_scores(DType::f32, {4});
    score(listed, {listed_scores.view(), {}, {}});
    EXPECT_EQ(listed_scores.values(), scores.values());
}

TEST(VersionTest, ThreeNumbers) {
    int parts[3] = {-1, -1, -1};
    const std::string text(version());
    EXPECT_EQ(std::sscanf(text.c_str(), "%d.%d.%d", &parts[0], &parts[1], &parts[2]), 3) << text;
}

}  // namespace
}  // namespace rowmax
