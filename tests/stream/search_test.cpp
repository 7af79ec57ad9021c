// The streaming search against topk() over everything at once.
#include "stream/search.hpp"

#include <gtest/gtest.h>

#include "stream/collection.hpp"
#include "stream/ranking.hpp"
#include "stream/step_plan.hpp"
#include "support/throws.hpp"

namespace rowmax::stream {
namespace {

using test::all_at_once;
using test::collection;
using test::Ranking;
using test::ranking_of;
using test::run;

SearchOptions options(std::int64_t k, std::int64_t memory = 0) {
    SearchOptions result;
    result.k = k;
    result.memory = memory;
    result.score.threads = 1;
    return result;
}

TEST(Search, FindsWhatTopkFinds) {
    const io::TokenSource queries = collection(7, 5, 16, 1);
    const io::TokenSource documents = collection(300, 9, 16, 2);
    for (const std::int64_t k : {1, 10, 299, 300, 1000}) {
        EXPECT_EQ(run({queries, {documents}, options(k)}), all_at_once(queries, documents, k)) << k;
    }
}

TEST(Search, TakesAnySizeOfStep) {
    const io::TokenSource queries = collection(40, 5, 64, 1);
    const io::TokenSource documents = collection(5000, 3, 64, 2);
    const Ranking want = all_at_once(queries, documents, 20);
    const std::int64_t least = least_memory({40, 5, 64, 20, 4, false, 0}, 1);
    for (const std::int64_t spare : {0, 20000, 200000, 4000000}) {
        Search search(queries, {documents}, options(20, least + spare));
        int steps = 0;
        while (search.step()) ++steps;
        EXPECT_EQ(ranking_of(search), want) << spare;
        if (spare == 0) {
            EXPECT_GT(steps, 1000);
        }
    }
}

TEST(Search, NumbersDocumentsThroughAllCorpora) {
    const io::TokenSource queries = collection(3, 4, 8, 1);
    const io::TokenSource whole = collection(50, 6, 8, 2);
    const auto part = [&](std::int64_t first, std::int64_t last) {
        const io::TokenBlock block = whole.block(first, last);
        return io::tokens_in_memory(block.set, io::Ids(last - first), block.owner);
    };
    Search search(queries, {part(0, 17), part(17, 17), part(17, 50)}, options(50));
    EXPECT_EQ(search.document_id(16), "16");
    EXPECT_EQ(search.document_id(17), "17");
    EXPECT_EQ(search.document_id(49), "49");
    EXPECT_EQ(run(std::move(search)), all_at_once(queries, whole, 50));
}

TEST(Search, ContinuesFromAnyPosition) {
    const io::TokenSource queries = collection(12, 5, 16, 1);
    const io::TokenSource documents = collection(400, 9, 16, 2);
    const Ranking want = all_at_once(queries, documents, 9);
    const std::int64_t least = least_memory({12, 5, 16, 9, 4, false, 0}, 1);
    Search first(queries, {documents}, options(9, least + 60000));
    do {
        std::vector<std::vector<core::Hit>> ranked;
        for (std::int64_t i = 0; i < first.query_count(); ++i) ranked.push_back(first.ranked(i));
        Search second(queries, {documents}, options(9));
        second.resume(first.position(), ranked);
        EXPECT_EQ(second.pairs_done(), first.pairs_done());
        EXPECT_EQ(run(std::move(second)), want) << first.pairs_done();
    } while (first.step());
}

TEST(Search, CountsWhatIsDone) {
    Search search(collection(4, 5, 16, 1), {collection(30, 9, 16, 2)}, options(3));
    EXPECT_EQ(search.pairs_done(), 0);
    EXPECT_EQ(search.pairs_total(), 120);
    std::int64_t before = 0;
    while (search.step()) {
        EXPECT_GT(search.pairs_done(), before);
        before = search.pairs_done();
    }
    EXPECT_EQ(before, 120);
    EXPECT_TRUE(search.finished());
}

TEST(Search, EndsAtOnceWithoutQueriesOrDocuments) {
    EXPECT_FALSE(Search(collection(0, 5, 16, 1), {collection(30, 9, 16, 2)}, options(3)).step());
    EXPECT_FALSE(Search(collection(4, 5, 16, 1), {collection(0, 9, 16, 2)}, options(3)).step());
    EXPECT_FALSE(Search(collection(4, 5, 16, 1), {}, options(3)).step());
}

TEST(Search, RefusesInputsThatDisagree) {
    EXPECT_ERROR(Search(collection(2, 3, 8, 1), {collection(2, 3, 9, 2)}, options(1)), invalid_value, "d = 8", "d = 9");
    EXPECT_ERROR(Search(collection(2, 3, 8, 1), {collection(2, 3, 8, 2, DType::f16)}, options(1)), invalid_type,
                 "float32", "float16");
    EXPECT_ERROR(Search(collection(2, 3, 8, 1), {collection(2, 3, 8, 2)}, options(0)), invalid_value,
                 "k must be at least 1, got 0");
    EXPECT_ERROR(Search(collection(2, 3, 8, 1), {collection(2, 3, 8, 2)}, options(1, 1000)), out_of_memory,
                 "1000 bytes");
}

}  // namespace
}  // namespace rowmax::stream
