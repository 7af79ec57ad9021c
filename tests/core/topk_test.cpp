// The order of a top-k: NaN first, higher scores, lower documents; whatever order the scores come in.
#include "core/topk.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace rowmax::core {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<std::int64_t> documents(const std::vector<Hit>& hits) {
    std::vector<std::int64_t> numbers;
    for (const Hit& hit : hits) numbers.push_back(hit.document);
    return numbers;
}

std::vector<Hit> ranked(const std::vector<Hit>& offered, std::int64_t k) {
    TopK best(1, k);
    for (const Hit& hit : offered) best.push(0, hit.score, hit.document);
    return best.ranked(0);
}

TEST(TopKTest, NaNThenScoresThenDocuments) {
    const std::vector<Hit> hits{{1, 0}, {nan, 5}, {-infinity, 1}, {1, 2}, {nan, 3}, {infinity, 4}, {0.0, 7}, {-0.0, 6}};
    EXPECT_EQ(documents(ranked(hits, 8)), (std::vector<std::int64_t>{3, 5, 4, 0, 2, 6, 7, 1}));
}

TEST(TopKTest, TiesAtTheEdgeKeepTheLowestDocument) {
    EXPECT_EQ(documents(ranked({{2, 9}, {2, 4}, {2, 7}, {3, 8}}, 2)), (std::vector<std::int64_t>{8, 4}));
}

TEST(TopKTest, ReturnsFewerWhenFewerWereOffered) {
    EXPECT_EQ(documents(ranked({{1, 0}}, 3)), (std::vector<std::int64_t>{0}));
    EXPECT_TRUE(ranked({}, 3).empty());
}

TEST(TopKTest, QueriesDoNotMix) {
    TopK best(2, 1);
    best.push(0, 1, 10);
    best.push(1, 2, 20);
    best.push(0, 0, 30);
    EXPECT_EQ(documents(best.ranked(0)), (std::vector<std::int64_t>{10}));
    EXPECT_EQ(documents(best.ranked(1)), (std::vector<std::int64_t>{20}));
    EXPECT_EQ(best.queries(), 2);
    EXPECT_EQ(best.k(), 1);
}

// Every k of a list full of ties and NaNs, offered in many orders, is the head of the sorted list.
TEST(TopKTest, OrderOfArrivalDoesNotMatter) {
    std::mt19937 random(7);
    std::vector<Hit> hits;
    for (std::int64_t document = 0; document < 40; ++document) {
        const auto value = static_cast<double>(random() % 6);
        hits.push_back({value == 5 ? nan : value, document});
    }
    std::vector<Hit> sorted = hits;
    std::sort(sorted.begin(), sorted.end(), ranks_before);
    for (std::int64_t k = 1; k <= 40; ++k) {
        std::shuffle(hits.begin(), hits.end(), random);
        const std::vector<Hit> head(sorted.begin(), sorted.begin() + k);
        ASSERT_EQ(documents(ranked(hits, k)), documents(head)) << "k = " << k;
    }
}

}  // namespace
}  // namespace rowmax::core
