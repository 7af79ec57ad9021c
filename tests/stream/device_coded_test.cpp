// Compressed documents that go to devices in blocks, with devices that are none: the same lists as on the CPU.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "io/coded_tokens.hpp"
#include "io/pack.hpp"
#include "io/plaid_writer.hpp"
#include "io/support.hpp"
#include "stream/coarse_queries.hpp"
#include "stream/collection.hpp"
#include "stream/fake_device.hpp"
#include "stream/ranking.hpp"
#include "stream/search.hpp"
#include "stream/two_stage.hpp"
#include "support/array.hpp"
#include "support/throws.hpp"

namespace rowmax::stream {
namespace {

using test::fake_backend;
using test::fake_use;
using test::Ranking;

constexpr std::int64_t dim = 24;
constexpr Coarse forms[] = {Coarse::int8, Coarse::fp8, Coarse::bits};

/// Items of one length that a mask may hide tokens of, of any numbers.
io::TokenSource tokens(std::int64_t count, std::int64_t length, unsigned seed, bool masked = false) {
    struct Arrays {
        test::Array tokens;
        test::Array mask;
    };
    std::mt19937 random(seed);
    const auto arrays = std::make_shared<Arrays>(
        Arrays{test::Array::generated(DType::f32, {count, length, dim},
                                      [&] { return std::normal_distribution<float>()(random); }),
               test::Array::generated(DType::boolean, {count, length}, [&] { return random() % 3 > 0 ? 1.0 : 0.0; })});
    TokenSet set;
    set.tokens = arrays->tokens.view();
    if (masked) set.mask = arrays->mask.view();
    return io::tokens_in_memory(set, io::Ids(count), arrays);
}

class CodedOnDevices : public test::FileTest {
  protected:
    CodedOnDevices() { fake_use() = {}; }
    ~CodedOnDevices() override {
        EXPECT_EQ(fake_use().device, 0U) << "memory of a device was not given back";
        EXPECT_EQ(fake_use().pinned, 0U);
        EXPECT_EQ(fake_use().streams, 0);
        EXPECT_EQ(fake_use().events, 0);
    }
    [[nodiscard]] Corpus corpus(const std::string& name, const io::TokenSource& source) const {
        io::PackOptions options;
        options.coarse = {forms[0], forms[1], forms[2]};
        io::pack(source, at(name), options);
        return Corpus::open(at(name));
    }
    static SearchOptions options(std::vector<int> devices, std::int64_t block) {
        SearchOptions made;
        made.k = 9;
        made.devices = std::move(devices);
        made.block_documents = block;
        made.backend = &fake_backend();
        made.score.threads = 2;
        return made;
    }
};

/// What topk() finds on the CPU in parts whose documents are numbered through.
Ranking on_cpu(const TokenSet& queries, std::int64_t count, const std::vector<io::TokenSource>& parts, std::int64_t k) {
    core::TopK best(count, k);
    std::int64_t first = 0;
    for (const io::TokenSource& part : parts) {
        const io::TokenBlock block = part.all();
        const std::int64_t kept = std::min(k, part.count());
        std::vector<float> scores(static_cast<std::size_t>(count * kept));
        std::vector<std::int64_t> index(scores.size());
        topk(queries, block.set, kept, 0, {}, TensorView(scores.data(), DType::f32, {count, kept}),
             TensorView(index.data(), DType::i64, {count, kept}));
        for (std::size_t i = 0; i < scores.size(); ++i)
            best.push(static_cast<std::int64_t>(i) / kept, double{scores[i]}, first + index[i]);
        first += part.count();
    }
    Ranking ranking;
    for (std::int64_t i = 0; i < count; ++i) {
        auto& row = ranking.emplace_back();
        for (const core::Hit& hit : best.ranked(i)) row.emplace_back(hit.score, hit.document);
    }
    return ranking;
}

TEST_F(CodedOnDevices, CoarseFormsHaveTheScoresOfTheHost) {
    const std::vector<Corpus> corpora{corpus("a", tokens(60, 9, 1, true)), corpus("b", tokens(41, 5, 2))};
    for (const bool masked : {false, true}) {
        const io::TokenSource queries = tokens(5, 7, 3, masked);
        const io::TokenBlock all = queries.all();
        for (const Coarse form : forms) {
            SCOPED_TRACE(name_of(form));
            std::vector<io::TokenSource> coded;
            for (const Corpus& c : corpora) coded.push_back(io::coded_tokens(c, form));
            const CoarseQueries coarse(all.set, form, 1);
            const Ranking want = on_cpu(coarse.set(), 5, coded, 9);
            for (const std::int64_t block : {0, 1, 7}) {
                for (const std::vector<int>& devices : {std::vector<int>{0}, std::vector<int>{0, 2, 0}}) {
                    SearchOptions how = options(devices, block);
                    how.form = form;
                    EXPECT_EQ(test::run(Search(queries, coded, how)), want) << block;
                }
            }
        }
    }
}

TEST_F(CodedOnDevices, IndexesHaveTheScoresOfTheHost) {
    const io::TokenSource documents = tokens(50, 8, 4, true);
    const io::TokenSource queries = tokens(4, 6, 5);
    const io::TokenBlock all = queries.all();
    for (const int nbits : {1, 2, 4, 8}) {
        SCOPED_TRACE(nbits);
        const std::string name = "index" + std::to_string(nbits);
        io::write_plaid_index(documents, at(name), {.nbits = nbits, .centroids = 12, .chunk_documents = 7});
        const auto coded = io::coded_tokens(std::make_shared<const io::PlaidIndex>(io::PlaidIndex::open(at(name))));
        ASSERT_EQ(coded.size(), 8U);
        const Ranking want = on_cpu(all.set, 4, coded, 9);
        for (const std::int64_t block : {0, 1, 3}) {
            for (const std::vector<int>& devices : {std::vector<int>{0}, std::vector<int>{0, 1}})
                EXPECT_EQ(test::run(Search(queries, coded, options(devices, block))), want) << block;
        }
    }
}

TEST_F(CodedOnDevices, TwoStagesFindWhatTheyFindOnTheHost) {
    const std::vector<Corpus> corpora{corpus("a", tokens(60, 9, 1, true)), corpus("b", tokens(41, 5, 2))};
    const io::TokenSource queries = tokens(5, 7, 3, true);
    for (const Coarse form : forms) {
        SCOPED_TRACE(name_of(form));
        for (const std::int64_t candidates : {1, 20, 1000}) {
            TwoStageOptions how;
            how.k = 6;
            how.candidates = candidates;
            how.form = form;
            const core::TopK want = search_two_stages(queries, corpora, how);
            how.devices = {1, 0};
            how.backend = &fake_backend();
            std::int64_t told = 0;
            how.progress = [&](std::int64_t done, std::int64_t total) {
                EXPECT_GE(done, told);
                told = done;
                EXPECT_EQ(total, 5 * 101);
            };
            const core::TopK got = search_two_stages(queries, corpora, how);
            EXPECT_EQ(told, 5 * 101);
            for (std::int64_t i = 0; i < 5; ++i) {
                const std::vector<core::Hit> a = got.ranked(i);
                const std::vector<core::Hit> b = want.ranked(i);
                ASSERT_EQ(a.size(), b.size());
                for (std::size_t j = 0; j < a.size(); ++j) {
                    EXPECT_EQ(a[j].document, b[j].document);
                    EXPECT_EQ(a[j].score, b[j].score);
                }
            }
        }
    }
}

TEST_F(CodedOnDevices, BytesThatAreCopiedAreThoseOfTheCodes) {
    const io::TokenSource documents = tokens(400, 16, 7);
    const std::vector<Corpus> corpora{corpus("a", documents)};
    const io::TokenSource queries = tokens(1, 2, 3);
    const auto copied = [&](Coarse form) {
        fake_use() = {};
        SearchOptions how = options({0}, 0);
        how.form = form;
        test::run(Search(queries, {io::coded_tokens(corpora[0], form)}, how));
        return fake_use().copied;
    };
    constexpr std::size_t rows = 400 * 16;
    constexpr std::size_t rest = 401 * 8 + 3000;  // offsets, queries, results
    EXPECT_LT(copied(Coarse::int8), rows * (dim + 4) + rest);
    EXPECT_LT(copied(Coarse::bits), rows * dim / 8 + rest);
}

// What the second stage lacks is said before the first.
TEST_F(CodedOnDevices, NothingIsScannedForNothing) {
    const io::TokenSource f64 = test::collection(6, 4, dim, 1, DType::f64);
    const std::vector<Corpus> corpora{corpus("none", test::collection(0, 4, dim, 1, DType::f64)), corpus("a", f64)};
    TwoStageOptions how;
    how.devices = {0};
    how.backend = &fake_backend();
    EXPECT_ERROR(search_two_stages(f64, corpora, how), not_implemented, "float64");
    EXPECT_EQ(fake_use().copied, 0U);
}

TEST_F(CodedOnDevices, WhatDoesNotFitIsNamed) {
    const Corpus some = corpus("some", tokens(5, 4, 1));
    const auto search = [&](Coarse coded, std::optional<Coarse> form) {
        SearchOptions how = options({0}, 0);
        how.form = form;
        return Search(tokens(1, 2, 3), {io::coded_tokens(some, coded)}, how);
    };
    EXPECT_ERROR(search(Coarse::int8, std::nullopt), invalid_type, "float32", "int8");
    EXPECT_ERROR(search(Coarse::int8, Coarse::fp8), invalid_type, "float8", "int8");
    EXPECT_ERROR(search(Coarse::bits, Coarse::int8), invalid_type, "int8");
}

}  // namespace
}  // namespace rowmax::stream
