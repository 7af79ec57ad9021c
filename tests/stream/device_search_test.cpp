// The search on devices, on devices that are none: right in any blocks, on any number of devices, after any
// interruption.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "stream/collection.hpp"
#include "stream/fake_device.hpp"
#include "stream/ranking.hpp"
#include "stream/search.hpp"
#include "support/throws.hpp"

namespace rowmax::stream {
namespace {

using test::all_at_once;
using test::collection;
using test::fake_backend;
using test::fake_use;
using test::Ranking;
using test::ranking_of;
using test::run;

constexpr std::int64_t mib = std::int64_t{1} << 20;

class DeviceSearch : public ::testing::Test {
  protected:
    DeviceSearch() { fake_use() = {}; }
    ~DeviceSearch() override {
        test::limit_fake_memory(0);
        const test::FakeDeviceUse& use = fake_use();
        EXPECT_EQ(use.device, 0U) << "memory of a device was not given back";
        EXPECT_EQ(use.pinned, 0U);
        EXPECT_EQ(use.streams, 0);
        EXPECT_EQ(use.events, 0);
    }

    static SearchOptions options(std::int64_t k, std::vector<int> devices = {0}, std::int64_t block_documents = 0) {
        SearchOptions result;
        result.k = k;
        result.devices = std::move(devices);
        result.block_documents = block_documents;
        result.backend = &fake_backend();
        result.score.threads = 2;
        return result;
    }
};

/// Items of different lengths, some of them empty, packed.
io::TokenSource ragged(std::int64_t count, std::int64_t longest, std::int64_t dim, unsigned seed,
                       DType dtype = DType::f32) {
    std::mt19937 random(seed);
    std::vector<double> starts{0};
    for (std::int64_t i = 0; i < count; ++i)
        starts.push_back(starts.back() + static_cast<double>(random() % static_cast<unsigned>(longest + 1)));
    const auto rows = static_cast<std::int64_t>(starts.back());
    struct Arrays {
        test::Array tokens;
        test::Array starts;
    };
    const auto arrays = std::make_shared<Arrays>(
        Arrays{test::Array::generated(dtype, {rows, dim}, [&] { return static_cast<double>(random() % 5) - 2; }),
               test::Array(DType::i64, {count + 1}, starts)});
    TokenSet set;
    set.tokens = arrays->tokens.view();
    set.cu_seqlens = arrays->starts.view();
    return io::tokens_in_memory(set, io::Ids(count), arrays);
}

/// The same with a mask that has holes, and hides some items wholly.
io::TokenSource masked(std::int64_t count, std::int64_t length, std::int64_t dim, unsigned seed) {
    std::mt19937 random(seed);
    struct Arrays {
        test::Array tokens;
        test::Array mask;
    };
    const auto arrays = std::make_shared<Arrays>(Arrays{
        test::Array::generated(DType::f32, {count, length, dim}, [&] { return static_cast<double>(random() % 5) - 2; }),
        test::Array::generated(DType::boolean, {count, length}, [&] { return random() % 3 > 0 ? 1.0 : 0.0; })});
    for (std::int64_t t = 0; t < length; ++t) arrays->mask.set(static_cast<std::size_t>(length + t), 0);
    TokenSet set;
    set.tokens = arrays->tokens.view();
    set.mask = arrays->mask.view();
    return io::tokens_in_memory(set, io::Ids(count), arrays);
}

TEST_F(DeviceSearch, FindsWhatTopkFinds) {
    const io::TokenSource queries = collection(7, 5, 16, 1);
    const io::TokenSource documents = collection(300, 9, 16, 2);
    for (const std::int64_t k : {1, 10, 299, 300, 1000})
        EXPECT_EQ(run({queries, {documents}, options(k)}), all_at_once(queries, documents, k)) << k;
}

TEST_F(DeviceSearch, TakesBlocksOfAnySizeOnAnyDevices) {
    const io::TokenSource queries = ragged(6, 20, 8, 1);
    const io::TokenSource documents = ragged(257, 12, 8, 2);
    const Ranking want = all_at_once(queries, documents, 20);
    for (const std::vector<int>& devices : {std::vector{0}, {2}, {0, 0}, {0, 1, 2}, {1, 0, 1, 2, 2}}) {
        for (const std::int64_t block : {1, 2, 7, 100, 256, 257, 1000}) {
            EXPECT_EQ(run({queries, {documents}, options(20, devices, block)}), want)
                << ::testing::PrintToString(devices) << ", blocks of " << block;
        }
    }
}

TEST_F(DeviceSearch, TakesEveryLayoutAndType) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        const io::TokenSource queries = collection(3, 33, 24, 1, dtype);
        const io::TokenSource documents = ragged(90, 40, 24, 2, dtype);
        EXPECT_EQ(run({queries, {documents}, options(15, {0, 1}, 8)}), all_at_once(queries, documents, 15));
    }
    const io::TokenSource queries = masked(5, 40, 8, 3);
    const io::TokenSource documents = masked(80, 11, 8, 4);
    EXPECT_EQ(run({queries, {documents}, options(80, {0, 1}, 8)}), all_at_once(queries, documents, 80));
}

// Documents anywhere in one buffer, overlapping and out of order.
TEST_F(DeviceSearch, TakesRanges) {
    const io::TokenSource queries = collection(2, 5, 8, 1);
    const auto storage = std::make_shared<test::Array>(test::Array::generated(
        DType::f32, {50, 8}, [n = 0]() mutable { return static_cast<double>(n++ * 7 % 5) - 2; }));
    const std::vector<std::int64_t> offsets{40, 0, 3, 49, 50, 0};
    const std::vector<std::int64_t> lengths{10, 50, 9, 1, 0, 1};
    TokenSet set;
    set.tokens = storage->view();
    set.offsets = TensorView(offsets.data(), DType::i64, {6});
    set.lengths = TensorView(lengths.data(), DType::i64, {6});
    const io::TokenSource documents = io::tokens_in_memory(set, io::Ids(6), storage);
    for (const std::int64_t block : {1, 4, 6})
        EXPECT_EQ(run({queries, {documents}, options(6, {0}, block)}), all_at_once(queries, documents, 6));
}

TEST_F(DeviceSearch, NumbersDocumentsThroughAllCorpora) {
    const io::TokenSource queries = collection(3, 4, 8, 1);
    const io::TokenSource whole = collection(50, 6, 8, 2);
    const auto part = [&](std::int64_t first, std::int64_t last) {
        const io::TokenBlock block = whole.block(first, last);
        return io::tokens_in_memory(block.set, io::Ids(last - first), block.owner);
    };
    const std::vector<io::TokenSource> parts{part(0, 17), part(17, 17), part(17, 50)};
    // Whole corpora too, so that a later block is larger than the first.
    for (const std::int64_t block : {5, 1000}) {
        for (const std::vector<int>& devices : {std::vector{0}, {0, 1}})
            EXPECT_EQ(run({queries, parts, options(50, devices, block)}), all_at_once(queries, whole, 50));
    }
}

TEST_F(DeviceSearch, ContinuesFromAnyPositionOnOtherDevices) {
    const io::TokenSource queries = collection(12, 5, 16, 1);
    const io::TokenSource documents = collection(200, 9, 16, 2);
    const Ranking want = all_at_once(queries, documents, 9);
    Search first(queries, {documents}, options(9, {0, 1}, 11));
    int positions = 0;
    do {
        first.settle();
        std::vector<std::vector<core::Hit>> ranked;
        for (std::int64_t i = 0; i < first.query_count(); ++i) ranked.push_back(first.ranked(i));
        Search second(queries, {documents}, options(9, {2, 0, 1}, 30));
        ASSERT_TRUE(second.takes(first.position()));
        second.resume(first.position(), ranked);
        EXPECT_EQ(second.pairs_done(), first.pairs_done());
        EXPECT_EQ(run(std::move(second)), want) << first.pairs_done();
        ++positions;
    } while (first.step());
    EXPECT_EQ(ranking_of(first), want);
    EXPECT_GT(positions, 18);
}

TEST_F(DeviceSearch, DoesNotContinueBetweenTwoQueries) {
    const Search search(collection(4, 5, 16, 1), {collection(30, 9, 16, 2)}, options(3));
    EXPECT_FALSE(search.takes({0, 10, 2}));
    EXPECT_TRUE(search.takes({10, 10, 0}));
}

TEST_F(DeviceSearch, ReadsOneCopyOfTheDocumentsAndHoldsTwoBlocks) {
    const std::int64_t dim = 64;
    const io::TokenSource queries = collection(2, 8, dim, 1);
    const io::TokenSource documents = collection(4000, 100, dim, 2);
    const std::int64_t bytes = documents.token_count() * dim * 4;
    SearchOptions small = options(10);
    small.memory = 8 * mib;
    EXPECT_EQ(run({queries, {documents}, small}), all_at_once(queries, documents, 10));
    const test::FakeDeviceUse use = fake_use();
    EXPECT_LE(use.pinned_peak, 8 * mib);
    EXPECT_GE(use.pinned_peak, 4 * mib);  // what it may have, it uses
    EXPECT_LE(use.device_peak, use.pinned_peak + 4 * mib);
    EXPECT_GE(use.copied, static_cast<std::size_t>(bytes));
    EXPECT_LE(use.copied, static_cast<std::size_t>(bytes + bytes / 50));
    fake_use() = {};
    run({queries, {documents}, options(10, {0, 1})});
    EXPECT_EQ(fake_use().pinned_peak, 4U * 32 * mib);  // the size chosen without a cap
}

TEST_F(DeviceSearch, RefusesWhatDoesNotFit) {
    const io::TokenSource queries = collection(4, 5, 16, 1);
    SearchOptions little = options(3);
    little.memory = 1000;
    EXPECT_ERROR(Search(queries, {collection(30, 9, 16, 2)}, little), out_of_memory, "1000 bytes");
    test::limit_fake_memory(10000);
    Search search(queries, {collection(30, 9, 16, 2)}, options(3));
    EXPECT_ERROR(search.step(), out_of_memory, "fake:0");
}

TEST_F(DeviceSearch, RefusesWhatNoKernelTakes) {
    EXPECT_ERROR(Search(collection(2, 3, 8, 1, DType::f64), {collection(2, 3, 8, 2, DType::f64)}, options(1)),
                 not_implemented, "cuda:0", "float64");
    EXPECT_ERROR(Search(collection(2, 3, 8, 1), {collection(2, 3, 8, 2)}, options(1, {0, 7})), device, "7");
}

TEST_F(DeviceSearch, EndsAtOnceWithoutQueriesOrDocuments) {
    EXPECT_FALSE(Search(collection(0, 5, 16, 1), {collection(30, 9, 16, 2)}, options(3)).step());
    EXPECT_FALSE(Search(collection(4, 5, 16, 1), {collection(0, 9, 16, 2)}, options(3)).step());
    EXPECT_FALSE(Search(collection(4, 5, 16, 1), {}, options(3)).step());
}

}  // namespace
}  // namespace rowmax::stream
