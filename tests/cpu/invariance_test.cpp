// The bits of a pair's score depend on nothing but the pair: not on the layout, the neighbours, their order, the
// threads, or on what else is asked for. And every row of the table gives the same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "cpu/sample.hpp"

namespace rowmax::test {
namespace {

constexpr std::int64_t queries = 6;
constexpr std::int64_t documents = 18;
constexpr std::int64_t lq = 35;
constexpr std::int64_t ld = 37;
constexpr std::int64_t dim = 72;

class SamePairs : public ::testing::TestWithParam<DType> {
  protected:
    SamePairs()
        : q_(DType(GetParam()), {queries, lq, dim}, random(queries * lq * dim, 1)),
          d_(DType(GetParam()), {documents, ld, dim}, random(documents * ld * dim, 2)) {}

    static std::vector<double> random(std::int64_t count, unsigned seed) {
        std::mt19937 generator(seed);
        const Values draw = normal();
        std::vector<double> all;
        for (std::int64_t i = 0; i < count; ++i) all.push_back(draw(generator));
        return all;
    }

    /// Items [first, first + count) of a side, as a dense view.
    static TensorView items(const Array& side, std::int64_t first, std::int64_t count) {
        TensorView view = side.view();
        const std::int64_t item = view.shape[1] * view.shape[2];
        view.data = static_cast<std::byte*>(view.data) + first * item * static_cast<std::int64_t>(size_of(view.dtype));
        view.shape[0] = count;
        return view;
    }
    static TensorView flat(const Array& side) {
        const TensorView view = side.view();
        return {view.data, view.dtype, {view.shape[0] * view.shape[1], view.shape[2]}};
    }

    ScoreRequest cross() const {
        ScoreRequest request;
        request.q.tokens = q_.view();
        request.d.tokens = d_.view();
        return request;
    }

    Array scores(const ScoreRequest& request, int threads = 1, Want want = Want::scores) const {
        return run(*row_, core::make_problem(request), want, threads).scores;
    }

    /// The score of query i and document j has these bits in `got`, at position p.
    void expect_pair(const Array& got, std::size_t p, std::int64_t i, std::int64_t j) const {
        const TensorView a = got.view();
        const TensorView b = truth_->view();
        const std::size_t size = size_of(a.dtype);
        const auto at = static_cast<std::size_t>(i * documents + j);
        EXPECT_EQ(
            std::memcmp(static_cast<std::byte*>(a.data) + p * size, static_cast<std::byte*>(b.data) + at * size, size),
            0)
            << "query " << i << " document " << j;
    }

    /// Runs `check` on every row, with the cross product's scores as truth.
    template <class F>
    void on_every_row(F check) {
        for (const core::Kernel* row : rows_for(GetParam())) {
            SCOPED_TRACE(row->name);
            row_ = row;
            const Array truth = scores(cross());
            truth_ = &truth;
            check();
        }
    }

    Array q_;
    Array d_;
    const core::Kernel* row_ = nullptr;
    const Array* truth_ = nullptr;
};

TEST_P(SamePairs, OnEveryRowOfTheTable) {
    const std::vector<const core::Kernel*> rows = rows_for(GetParam());
    if (rows.empty()) GTEST_SKIP() << "no row takes this type";
    const core::Problem problem = core::make_problem(cross());
    const Results first = run(*rows.front(), problem);
    for (const core::Kernel* row : rows) {
        SCOPED_TRACE(row->name);
        const Results results = run(*row, problem);
        EXPECT_TRUE(same_bits(results.scores, first.scores));
        EXPECT_TRUE(same_bits(results.similarity, first.similarity));
        EXPECT_TRUE(same_bits(results.index, first.index));
    }
}

TEST_P(SamePairs, Alone) {
    on_every_row([&] {
        for (std::int64_t i = 0; i < queries; i += 3) {
            for (std::int64_t j = 0; j < documents; j += 5) {
                ScoreRequest request;
                request.q.tokens = items(q_, i, 1);
                request.d.tokens = items(d_, j, 1);
                expect_pair(scores(request), 0, i, j);
            }
        }
    });
}

TEST_P(SamePairs, WhateverElseIsAskedFor) {
    on_every_row([&] {
        EXPECT_TRUE(same_bits(scores(cross(), 1, Want::index), *truth_));
        EXPECT_TRUE(same_bits(scores(cross(), 1, Want::all), *truth_));
    });
}

TEST_P(SamePairs, OnAnyNumberOfThreads) {
    on_every_row([&] {
        for (const int threads : {2, 3, 4}) EXPECT_TRUE(same_bits(scores(cross(), threads), *truth_)) << threads;
    });
}

TEST_P(SamePairs, Packed) {
    std::vector<double> starts_q(queries + 1);
    std::vector<double> starts_d(documents + 1);
    for (std::int64_t i = 0; i <= queries; ++i) starts_q[static_cast<std::size_t>(i)] = static_cast<double>(i * lq);
    for (std::int64_t j = 0; j <= documents; ++j) starts_d[static_cast<std::size_t>(j)] = static_cast<double>(j * ld);
    const Array cu_q(DType::i32, {queries + 1}, starts_q);
    const Array cu_d(DType::i64, {documents + 1}, starts_d);
    ScoreRequest request;
    request.q = {flat(q_), {}, cu_q.view(), {}, {}, -1};
    request.d = {flat(d_), {}, cu_d.view(), {}, {}, -1};
    on_every_row([&] { EXPECT_TRUE(same_bits(scores(request), *truth_)); });
}

TEST_P(SamePairs, InAListInAnyOrder) {
    std::vector<double> pair_q;
    std::vector<double> pair_d;
    std::mt19937 random(3);
    for (int p = 0; p < 200; ++p) {
        pair_q.push_back(static_cast<double>(random() % queries));
        pair_d.push_back(static_cast<double>(random() % documents));
    }
    const Array list_q(DType::i64, {200}, pair_q);
    const Array list_d(DType::i32, {200}, pair_d);
    ScoreRequest request = cross();
    request.pairing = Pairing::list;
    request.pair_q = list_q.view();
    request.pair_d = list_d.view();
    on_every_row([&] {
        for (const int threads : {1, 4}) {
            const Array got = scores(request, threads);
            for (std::size_t p = 0; p < 200; ++p) {
                expect_pair(got, p, static_cast<std::int64_t>(pair_q[p]), static_cast<std::int64_t>(pair_d[p]));
            }
        }
    });
}

TEST_P(SamePairs, GroupedAndZipped) {
    constexpr std::int64_t each = documents / queries;
    ScoreRequest grouped = cross();
    grouped.pairing = Pairing::grouped;
    const TensorView d = items(d_, 0, queries * each);
    grouped.d.tokens = {d.data, d.dtype, {queries, each, ld, dim}};
    ScoreRequest zipped = cross();
    zipped.pairing = Pairing::zipped;
    zipped.d.tokens = items(d_, 0, queries);
    on_every_row([&] {
        const Array in_groups = scores(grouped);
        for (std::int64_t p = 0; p < queries * each; ++p)
            expect_pair(in_groups, static_cast<std::size_t>(p), p / each, p);
        const Array one_by_one = scores(zipped);
        for (std::int64_t p = 0; p < queries; ++p) expect_pair(one_by_one, static_cast<std::size_t>(p), p, p);
    });
}

TEST_P(SamePairs, AsRangesOfOneBuffer) {
    std::vector<double> starts;
    for (std::int64_t j = documents; j-- > 0;) starts.push_back(static_cast<double>(j * ld));
    const Array offsets(DType::i64, {documents}, starts);
    const Array lengths(DType::i32, {documents}, {ld});
    on_every_row([&] {
        for (std::int64_t i = 0; i < queries; i += 2) {
            const TensorView q = items(q_, i, 1);
            ScoreRequest request;
            request.q.tokens = {q.data, q.dtype, {lq, dim}};
            request.d = {flat(d_), {}, {}, offsets.view(), lengths.view(), -1};
            const Array got = scores(request);
            for (std::int64_t j = 0; j < documents; ++j) {
                expect_pair(got, static_cast<std::size_t>(documents - 1 - j), i, j);
            }
        }
    });
}

// The first tokens of a query alone: which kernel takes how many of them changes no similarity and no winner.
TEST_P(SamePairs, FewQueryTokens) {
    for (const bool normalize : {false, true}) {
        ScoreRequest whole = cross();
        whole.options.normalize = normalize;
        whole.q.tokens = items(q_, 0, 1);
        for (const core::Kernel* row : rows_for(GetParam())) {
            SCOPED_TRACE(row->name);
            const Results truth = run(*row, core::make_problem(whole));
            for (std::int64_t count = 1; count < lq; ++count) {
                SCOPED_TRACE(count);
                ScoreRequest few = whole;
                few.q.tokens.shape[1] = count;
                const Results got = run(*row, core::make_problem(few));
                const Array scores_alone = run(*row, core::make_problem(few), Want::scores).scores;
                EXPECT_TRUE(same_bits(got.scores, scores_alone));
                for (std::int64_t i = 0; i < documents * count; ++i) {
                    const auto at = static_cast<std::size_t>(i);
                    const auto in_truth = static_cast<std::size_t>(i / count * lq + i % count);
                    EXPECT_EQ(got.similarity[at], truth.similarity[in_truth]);
                    EXPECT_EQ(got.index[at], truth.index[in_truth]);
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Cpu, SamePairs, ::testing::ValuesIn(token_types),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

// Documents with hidden tokens score as if those tokens were not there.
TEST(Invariance, AMaskIsAShorterDocument) {
    const Shape shape{Layout::cross, DType::f32, 3, 5, 20, 90, 64, true, false, 4};
    const Sample sample(shape, normal());
    const core::Problem problem = core::make_problem(sample.request);
    const core::Params& p = problem.params;
    for (const core::Kernel* row : rows_for(DType::f32)) {
        SCOPED_TRACE(row->name);
        const Results masked = run(*row, problem);
        for (std::int64_t j = 0; j < shape.documents; ++j) {
            const core::Segment document = p.d.at(j);
            std::vector<double> kept;
            for (std::int64_t t = 0; t < document.length; ++t) {
                if (!p.d.keeps(document, t)) continue;
                const std::vector<double> token = core::reference::widen_row(p, p.d, document, t);
                kept.insert(kept.end(), token.begin(), token.end());
            }
            const Array tokens(DType::f32, {1, static_cast<std::int64_t>(kept.size()) / shape.dim, shape.dim},
                               kept.empty() ? std::vector<double>{0} : kept);
            ScoreRequest request = sample.request;
            request.d.tokens = tokens.view();
            request.d.mask = {};
            const Results packed = run(*row, core::make_problem(request));
            for (std::int64_t i = 0; i < shape.queries; ++i) {
                EXPECT_EQ(packed.scores[static_cast<std::size_t>(i)],
                          masked.scores[static_cast<std::size_t>(i * shape.documents + j)]);
            }
        }
    }
}

// One document long enough to be cut for several threads, and one query long enough to be packed in several slices.
TEST(Invariance, OneLongDocumentOnAnyNumberOfThreads) {
    for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
        for (const bool normalize : {false, true}) {
            const Shape shape{Layout::single, dtype, 1, 1, 33, 5000, 40, true, normalize, 8};
            SCOPED_TRACE(::testing::PrintToString(shape));
            const Sample sample(shape, normal());
            const core::Problem problem = core::make_problem(sample.request);
            if (rows_for(dtype).empty()) continue;
            const core::Kernel& row = *rows_for(dtype).front();
            const Results alone = run(row, problem);
            for (const int threads : {2, 3, 5}) {
                const Results shared = run(row, problem, Want::all, threads);
                EXPECT_TRUE(same_bits(alone.scores, shared.scores)) << threads;
                EXPECT_TRUE(same_bits(alone.index, shared.index)) << threads;
                EXPECT_TRUE(same_bits(alone.similarity, shared.similarity)) << threads;
            }
        }
    }
}

TEST(Invariance, OneLongQueryOnAnyNumberOfThreads) {
    const Sample sample({Layout::cross, DType::f32, 2, 3, 300, 700, 1024, true, false, 8}, normal());
    const core::Problem problem = core::make_problem(sample.request);
    const core::Kernel& row = *rows_for(DType::f32).front();
    const Results alone = run(row, problem);
    const Results other = run(*rows_for(DType::f32).back(), problem);
    EXPECT_TRUE(same_bits(alone.scores, other.scores));
    for (const int threads : {2, 3, 4}) {
        const Results shared = run(row, problem, Want::all, threads);
        EXPECT_TRUE(same_bits(alone.scores, shared.scores)) << threads;
        EXPECT_TRUE(same_bits(alone.index, shared.index)) << threads;
    }
}

}  // namespace
}  // namespace rowmax::test
