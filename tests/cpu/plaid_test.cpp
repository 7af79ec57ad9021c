// The steps of a PLAID search by their definitions, and the whole search against scoring every document.
#include "rowmax/plaid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "core/topk.hpp"
#include "support/array.hpp"
#include "support/throws.hpp"

namespace rowmax {
namespace {

using test::Array;
using Numbers = std::vector<std::int64_t>;

constexpr float infinity = std::numeric_limits<float>::infinity();

TensorView list(const Numbers& numbers) {
    return {numbers.data(), DType::i64, {static_cast<std::int64_t>(numbers.size())}};
}

Array random_array(DType dtype, std::vector<std::int64_t> shape, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    return Array::generated(dtype, std::move(shape), [&] { return normal(random); });
}

Array integers(DType dtype, std::vector<std::int64_t> shape, std::int64_t below, unsigned seed) {
    std::mt19937 random(seed);
    return Array::generated(dtype, std::move(shape), [&] {
        return static_cast<double>(std::uniform_int_distribution<std::int64_t>(0, below - 1)(random));
    });
}

/// An index of two parts, whose documents come with their number of tokens.
struct Index {
    static constexpr std::int64_t dim = 16;
    static constexpr std::int64_t centroid_count = 23;
    std::vector<Numbers> lengths;
    Array centroids;
    Array weights{DType::f32, {4}, {-0.3, -0.1, 0.1, 0.3}};
    std::vector<Array> codes;
    std::vector<Array> residuals;
    std::vector<Numbers> starts;
    InvertedLists lists;
    PlaidIndexView view;

    explicit Index(std::vector<Numbers> lengths_of_parts, DType centroid_type = DType::f16,
                   DType code_type = DType::i64)
        : lengths(std::move(lengths_of_parts)), centroids(random_array(centroid_type, {centroid_count, dim}, 3)) {
        view.tables = {centroids.view(), weights.view(), 2, BitOrder::colbert, true};
        for (const Numbers& part : lengths) {
            Numbers start{0};
            for (const std::int64_t length : part) start.push_back(start.back() + length);
            const auto seed = static_cast<unsigned>(codes.size()) + 10;
            codes.push_back(integers(code_type, {start.back()}, centroid_count, seed));
            residuals.push_back(integers(DType::u8, {start.back(), dim / 4}, 256, seed + 10));
            starts.push_back(std::move(start));
        }
        for (std::size_t p = 0; p < codes.size(); ++p) {
            view.parts.push_back({codes[p].view(), residuals[p].view(), list(starts[p])});
        }
        lists = plaid_invert(view.parts, centroid_count);
        view.lists = lists.view();
    }
    [[nodiscard]] std::int64_t count() const {
        std::size_t all = 0;
        for (const Numbers& part : lengths) all += part.size();
        return static_cast<std::int64_t>(all);
    }
    /// The centroids of every document's tokens.
    [[nodiscard]] std::vector<std::set<std::int64_t>> cells() const {
        std::vector<std::set<std::int64_t>> all;
        for (std::size_t p = 0; p < codes.size(); ++p) {
            for (std::size_t i = 0; i + 1 < starts[p].size(); ++i) {
                all.emplace_back();
                for (std::int64_t t = starts[p][i]; t < starts[p][i + 1]; ++t) {
                    all.back().insert(static_cast<std::int64_t>(codes[p][static_cast<std::size_t>(t)]));
                }
            }
        }
        return all;
    }
};

Index some_index() {
    return Index({{3, 0, 7, 1, 12, 5}, {}, {4, 4, 1, 20}});
}

/// Exact scores of every document.
std::vector<float> all_scores(const Index& index, const TokenSet& q) {
    std::vector<float> all;
    for (const PlaidPart& part : index.view.parts) {
        ScoreRequest request;
        request.q = q;
        request.d.tokens = part.residuals;
        request.d.codes = part.codes;
        request.d.cu_seqlens = part.cu_seqlens;
        request.d.residual = &index.view.tables;
        std::vector<float> scores(static_cast<std::size_t>(part.cu_seqlens.shape[0] - 1));
        score(request, {TensorView(scores.data(), DType::f32, {static_cast<std::int64_t>(scores.size())}), {}, {}});
        all.insert(all.end(), scores.begin(), scores.end());
    }
    return all;
}

struct Found {
    std::vector<float> scores;
    Numbers documents;
};

Found search(const Index& index, const TokenSet& q, std::int64_t k, const PlaidSearchOptions& how, int threads = 1) {
    const std::int64_t queries = q.cu_seqlens.given() ? q.cu_seqlens.shape[0] - 1
                                 : q.tokens.ndim == 2 ? 1
                                                      : q.tokens.shape[0];
    const std::int64_t kept = std::min(k, index.count());
    Found found{std::vector<float>(static_cast<std::size_t>(queries * kept), -7),
                Numbers(static_cast<std::size_t>(queries * kept), -7)};
    Options options;
    options.threads = threads;
    plaid_search(q, index.view, k, how, options, TensorView(found.scores.data(), DType::f32, {queries, kept}),
                 TensorView(found.documents.data(), DType::i64, {queries, kept}));
    return found;
}

TEST(PlaidProbe, TakesTheBestCentroidsOfEachToken) {
    const Array scores(DType::f32, {5, 3}, {1, 5, 0, 2, 5, 0, 3, 1, 0, 3, 9, 0, -1, 5, 0});
    Numbers cells(9);
    plaid_probe(scores.view(), 3, TensorView(cells.data(), DType::i64, {3, 3}));
    EXPECT_EQ(cells, (Numbers{2, 3, 1, 3, 0, 1, 0, 1, 2}));
}

TEST(PlaidProbe, NanComesFirstAndAllIsAll) {
    const double nan = std::nan("");
    const Array scores(DType::f32, {4, 1}, {1, nan, 3, nan});
    Numbers cells(4);
    plaid_probe(scores.view(), 9, TensorView(cells.data(), DType::i64, {1, 4}));
    EXPECT_EQ(cells, (Numbers{1, 3, 2, 0}));
    Numbers two(2);
    plaid_probe(scores.view(), 2, TensorView(two.data(), DType::i64, {1, 2}));
    EXPECT_EQ(two, (Numbers{1, 3}));
}

TEST(PlaidProbe, AgreesWithSortingForAnyTypeAndThreads) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const Array scores = random_array(dtype, {301, 37}, 5);
        Numbers want;
        for (std::size_t s = 0; s < 37; ++s) {
            core::TopK best(1, 6);
            for (std::int64_t c = 0; c < 301; ++c) best.push(0, scores[static_cast<std::size_t>(c) * 37 + s], c);
            for (const core::Hit& hit : best.ranked(0)) want.push_back(hit.document);
        }
        for (const int threads : {1, 3}) {
            Numbers cells(want.size());
            Options options;
            options.threads = threads;
            plaid_probe(scores.view(), 6, TensorView(cells.data(), DType::i64, {37, 6}), options);
            EXPECT_EQ(cells, want) << name_of(dtype) << " " << threads;
        }
    }
}

TEST(PlaidLists, HoldEveryDocumentOnceByCentroid) {
    const Index index = some_index();
    const std::vector<std::set<std::int64_t>> cells = index.cells();
    Numbers want;
    for (std::int64_t c = 0; c < Index::centroid_count; ++c) {
        std::int32_t length = 0;
        for (std::size_t document = 0; document < cells.size(); ++document) {
            if (cells[document].count(c) == 0) continue;
            want.push_back(static_cast<std::int64_t>(document));
            ++length;
        }
        EXPECT_EQ(index.lists.lengths[static_cast<std::size_t>(c)], length);
    }
    EXPECT_EQ(index.lists.documents, want);
}

TEST(PlaidLists, CandidatesAreTheUnionOfLists) {
    const Index index = some_index();
    const std::vector<std::set<std::int64_t>> cells = index.cells();
    const Numbers probed{4, 19, 4, 0, 7};
    Numbers want;
    for (std::size_t document = 0; document < cells.size(); ++document) {
        const auto here = [&](std::int64_t c) { return cells[document].count(c) > 0; };
        if (std::any_of(probed.begin(), probed.end(), here)) want.push_back(static_cast<std::int64_t>(document));
    }
    EXPECT_EQ(plaid_candidates(list(probed), index.view.lists, index.count()), want);
}

TEST(PlaidLists, WhatLiesIsNamedOrPassedOver) {
    const Numbers documents{0, 5, -1, 1};
    const Numbers lengths{2, 2};
    const InvertedFile lists{list(documents), list(lengths)};
    const Numbers first{0};
    const Numbers second{1};
    EXPECT_ERROR(plaid_candidates(list(first), lists, 5), invalid_value, "ivf[1] is 5", "5 documents");
    EXPECT_ERROR(plaid_candidates(list(second), lists, 5), invalid_value, "ivf[2] is -1");
    const Numbers beyond{1, 7};
    EXPECT_ERROR(plaid_candidates(list(beyond), lists, 6, true), invalid_value, "ivf[2] is -1");
    EXPECT_EQ(plaid_candidates(list(beyond), lists, 6, false), Numbers{1});
    const Numbers long_lists{2, 3};
    EXPECT_ERROR(plaid_candidates(list(first), {list(documents), list(long_lists)}, 6), invalid_value,
                 "ivf_lengths[1] is 3", "2 of the 4");
    EXPECT_EQ(plaid_candidates(list(beyond), {list(documents), list(long_lists)}, 6, false), Numbers{});
    const Numbers far{0, 9};
    const std::vector<PlaidPart> parts{{list(documents), {}, list(far)}};
    EXPECT_ERROR(plaid_invert(parts, 6), invalid_value, "cu_seqlens", "[0, 9)", "4 codes");
}

TEST(PlaidApproxScorePacked, IsThatOfPaddedDocuments) {
    const Index index = some_index();
    const Array table = random_array(DType::f32, {Index::centroid_count, 9}, 8);
    const Numbers& starts = index.starts[0];
    Array padded(DType::i64, {6, 12});
    for (std::size_t i = 0; i < 6; ++i) {
        for (std::int64_t t = starts[i]; t < starts[i + 1]; ++t) {
            padded.set(i * 12 + static_cast<std::size_t>(t - starts[i]), index.codes[0][static_cast<std::size_t>(t)]);
        }
    }
    std::vector<float> want(6);
    plaid_approx_score(table.view(), padded.view(), list(index.lengths[0]), TensorView(want.data(), DType::f32, {6}));
    std::vector<float> got(6);
    plaid_approx_score_packed(table.view(), index.codes[0].view(), list(starts), {},
                              TensorView(got.data(), DType::f32, {6}));
    EXPECT_EQ(got, want);
    const Numbers chosen{4, 0, 4, 1};
    std::vector<float> some(4);
    plaid_approx_score_packed(table.view(), index.codes[0].view(), list(starts), list(chosen),
                              TensorView(some.data(), DType::f32, {4}));
    EXPECT_EQ(some, (std::vector<float>{want[4], want[0], want[4], want[1]}));
}

TEST(PlaidApproxScorePacked, LeavesOutCentroidsBelowTheThreshold) {
    const Array table(DType::f32, {3, 2}, {1, -5, -2, -3, -1, 4});
    const Numbers codes{0, 1, 1, 2, 1};
    const Numbers starts{0, 2, 3, 3, 5};
    std::vector<float> got(4);
    const TensorView to(got.data(), DType::f32, {4});
    plaid_approx_score_packed(table.view(), list(codes), list(starts), {}, to, 0.5F);
    EXPECT_EQ(got, (std::vector<float>{-4, -infinity, 0, 3}));
    plaid_approx_score_packed(table.view(), list(codes), list(starts), {}, to, -2.0F);
    EXPECT_EQ(got, (std::vector<float>{-2, -5, 0, 3}));
}

TEST(PlaidApproxScorePacked, WhatLiesIsNamed) {
    const Array table(DType::f32, {3, 2}, {1});
    const Numbers codes{0, 3};
    const Numbers starts{0, 1, 2};
    const Numbers chosen{0, 2};
    std::vector<float> got(2);
    const TensorView to(got.data(), DType::f32, {2});
    EXPECT_ERROR(plaid_approx_score_packed(table.view(), list(codes), list(starts), {}, to), invalid_value,
                 "token 0 of document 1 has code 3", "3 centroids");
    EXPECT_ERROR(plaid_approx_score_packed(table.view(), list(codes), list(starts), list(chosen), to), invalid_value,
                 "documents[1] is 2", "2 documents");
    Options unchecked;
    unchecked.validate = false;
    plaid_approx_score_packed(table.view(), list(codes), list(starts), list(chosen), to, -infinity, unchecked);
    EXPECT_EQ(got, (std::vector<float>{2, 2}));
    const Numbers long_starts{0, 1, 9};
    EXPECT_ERROR(plaid_approx_score_packed(table.view(), list(codes), list(long_starts), {}, to), invalid_value,
                 "cu_seqlens", "[1, 9)");
}

class PlaidSearchTypes : public testing::TestWithParam<std::tuple<DType, DType, DType>> {};

// Every list probed and every document a candidate: the ranking of all documents that have tokens, to the bit.
TEST_P(PlaidSearchTypes, OfEverythingIsExhaustive) {
    const auto [query_type, centroid_type, code_type] = GetParam();
    const Index index({{3, 0, 7, 1, 12, 5}, {}, {4, 4, 1, 20}}, centroid_type, code_type);
    const Array q = random_array(query_type, {3, 19, Index::dim}, 4);
    const Found found = search(index, {q.view(), {}, {}, {}, {}}, 20, {100, 100, -infinity});
    for (std::int64_t i = 0; i < 3; ++i) {
        const auto at = static_cast<std::byte*>(q.view().data) +
                        static_cast<std::size_t>(i * 19 * Index::dim) * size_of(query_type);
        const std::vector<float> scores =
            all_scores(index, {TensorView(at, query_type, {19, Index::dim}), {}, {}, {}, {}});
        core::TopK best(1, 10);
        for (std::int64_t j = 0; j < 10; ++j) {
            if (j != 1) best.push(0, double{scores[static_cast<std::size_t>(j)]}, j);  // document 1 has no tokens
        }
        std::size_t n = static_cast<std::size_t>(i) * 10;
        for (const core::Hit& hit : best.ranked(0)) {
            EXPECT_EQ(found.documents[n], hit.document);
            EXPECT_EQ(found.scores[n++], static_cast<float>(hit.score));
        }
        EXPECT_EQ(found.documents[n], -1);
        EXPECT_EQ(found.scores[n], -infinity);
    }
}

INSTANTIATE_TEST_SUITE_P(Types, PlaidSearchTypes,
                         testing::Values(std::tuple{DType::f32, DType::f16, DType::i64},
                                         std::tuple{DType::f16, DType::f32, DType::i32},
                                         std::tuple{DType::bf16, DType::bf16, DType::i64}));

TEST(PlaidSearch, DoesWhatItsStepsDo) {
    const Index index = some_index();
    const Array q = random_array(DType::f32, {8, Index::dim}, 9);
    const std::int64_t nprobe = 2;
    // By the definition, in double precision; no two scores are near enough to round together.
    Array table(DType::f32, {Index::centroid_count, 8});
    for (std::size_t c = 0; c < Index::centroid_count; ++c) {
        for (std::size_t s = 0; s < 8; ++s) {
            double sum = 0;
            for (std::size_t x = 0; x < Index::dim; ++x)
                sum += index.centroids[c * Index::dim + x] * q[s * Index::dim + x];
            table.set(c * 8 + s, sum);
        }
    }
    Numbers cells(16);
    plaid_probe(table.view(), nprobe, TensorView(cells.data(), DType::i64, {8, nprobe}));
    const Numbers found = plaid_candidates(list(cells), index.view.lists, index.count());
    ASSERT_GT(found.size(), 4U);
    core::TopK approximate(1, 4);
    for (const std::int64_t document : found) {
        const std::size_t part = document < 6 ? 0 : 2;
        const Numbers number{document - (part == 0 ? 0 : 6)};
        float score = 0;
        plaid_approx_score_packed(table.view(), index.codes[part].view(), list(index.starts[part]), list(number),
                                  TensorView(&score, DType::f32, {1}));
        approximate.push(0, double{score}, document);
    }
    const std::vector<float> scores = all_scores(index, {q.view(), {}, {}, {}, {}});
    core::TopK best(1, 3);
    for (const core::Hit& hit : approximate.ranked(0)) {
        best.push(0, double{scores[static_cast<std::size_t>(hit.document)]}, hit.document);
    }
    const Found got = search(index, {q.view(), {}, {}, {}, {}}, 3, {nprobe, 4, -infinity});
    std::size_t n = 0;
    for (const core::Hit& hit : best.ranked(0)) {
        EXPECT_EQ(got.documents[n], hit.document);
        EXPECT_EQ(got.scores[n++], static_cast<float>(hit.score));
    }
    EXPECT_EQ(n, 3U);
}

TEST(PlaidSearch, MasksLayoutsAndThreadsChangeNothing) {
    const Index index = some_index();
    const Array q = random_array(DType::f32, {5, 6, Index::dim}, 11);
    Array mask(DType::boolean, {5, 6}, {1});
    for (const std::size_t hidden : {2U, 8U, 12U, 13U, 14U, 15U, 16U, 17U}) mask.set(hidden, 0);  // query 2 wholly
    const PlaidSearchOptions how{1, 3, 0.5F};
    TokenSet masked{q.view(), mask.view(), {}, {}, {}};
    const Found want = search(index, masked, 3, how, 1);
    for (const int threads : {2, 16}) {
        const Found got = search(index, masked, 3, how, threads);
        EXPECT_EQ(got.scores, want.scores);
        EXPECT_EQ(got.documents, want.documents);
    }
    EXPECT_EQ(want.documents[6], -1);
    const Numbers starts{0, 6, 12, 18, 24, 30};
    TokenSet packed;
    const Array flat(DType::f32, {30, Index::dim}, q.values());
    packed.tokens = flat.view();
    packed.cu_seqlens = list(starts);
    const Found dense = search(index, {q.view(), {}, {}, {}, {}}, 3, how);
    const Found got = search(index, packed, 3, how);
    EXPECT_EQ(got.scores, dense.scores);
    EXPECT_EQ(got.documents, dense.documents);
}

TEST(PlaidSearch, EqualDocumentsComeInOrder) {
    Index index({{4, 4, 4, 4, 4, 4}});
    for (std::size_t t = 0; t < 24; ++t) {
        index.codes[0].set(t, index.codes[0][t % 4]);
        for (std::size_t b = 0; b < 4; ++b) index.residuals[0].set(t * 4 + b, index.residuals[0][t % 4 * 4 + b]);
    }
    index.lists = plaid_invert(index.view.parts, Index::centroid_count);
    index.view.lists = index.lists.view();
    const Array q = random_array(DType::f32, {4, Index::dim}, 2);
    EXPECT_EQ(search(index, {q.view(), {}, {}, {}, {}}, 3, {23, 4, -infinity}).documents, (Numbers{0, 1, 2}));
    EXPECT_EQ(search(index, {q.view(), {}, {}, {}, {}}, 3, {23, 1, -100.0F}).documents, (Numbers{0, 1, 2}));
}

TEST(PlaidSearch, WhatDoesNotFitIsNamed) {
    Index index = some_index();
    const Array q(DType::f32, {2, Index::dim}, {1});
    const TokenSet set{q.view(), {}, {}, {}, {}};
    EXPECT_ERROR(search(index, set, 0, {}), invalid_value, "k", "0");
    EXPECT_ERROR(search(index, set, 1, {0, 5, 0}), invalid_value, "nprobe", "0");
    EXPECT_ERROR(search(index, set, 1, {1, 0, 0}), invalid_value, "candidates", "0");
    EXPECT_ERROR(search(index, set, 1, {1, 1, std::nanf("")}), invalid_value, "threshold");
    const Array wide(DType::f32, {2, 20}, {1});
    EXPECT_ERROR(search(index, {wide.view(), {}, {}, {}, {}}, 1, {}), invalid_value, "centroids", "20");
    const Array doubles(DType::f64, {2, Index::dim}, {1});
    EXPECT_ERROR(search(index, {doubles.view(), {}, {}, {}, {}}, 1, {}), invalid_type, "Q", "float64");
    index.codes[0].set(0, 99);
    EXPECT_ERROR(search(index, set, 10, {23, 100, -infinity}), invalid_value, "code 99", "23 centroids");
    index.lists.lengths.pop_back();
    index.view.lists = index.lists.view();
    EXPECT_ERROR(search(index, set, 1, {}), invalid_value, "ivf_lengths", "22", "23");
}

}  // namespace
}  // namespace rowmax
