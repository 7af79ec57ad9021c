#include "rowmax/corpus.hpp"

#include <gtest/gtest.h>

#include <random>

#include "io/support.hpp"
#include "rowmax/compressed.hpp"

namespace rowmax::test {
namespace {

class CorpusTest : public FileTest {
  protected:
    /// Three documents of 2, 0 and 3 tokens of dimension 2: 0, 1, 2, ...
    fs::path write_small(bool ids) const {
        CorpusWriter writer(at("c.rmx"), DType::f32, 2);
        writer.append(TensorView(numbers_.data(), DType::f32, {2, 2}), ids ? "alpha" : "");
        writer.append(TensorView(numbers_.data(), DType::f32, {0, 2}), ids ? "β" : "");
        writer.append(TensorView(numbers_.data() + 4, DType::f32, {3, 2}), ids ? "gamma-3" : "");
        writer.commit();
        return at("c.rmx");
    }
    std::vector<float> numbers_{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
};

TEST_F(CorpusTest, RoundTrip) {
    const Corpus corpus = Corpus::open(write_small(true));
    EXPECT_EQ(corpus.count(), 3);
    EXPECT_EQ(corpus.token_count(), 5);
    EXPECT_EQ(corpus.max_length(), 3);
    EXPECT_EQ(corpus.dim(), 2);
    EXPECT_EQ(corpus.dtype(), DType::f32);
    EXPECT_EQ(corpus.file_bytes(), fs::file_size(at("c.rmx")));
    EXPECT_EQ(values_of<float>(corpus.tokens()), numbers_);
    EXPECT_EQ(values_of<std::int64_t>(corpus.cu_seqlens()), (std::vector<std::int64_t>{0, 2, 2, 5}));
    EXPECT_EQ(values_of<float>(corpus.document(2)), (std::vector<float>{4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(shape_of(corpus.document(1)), (std::vector<std::int64_t>{0, 2}));
    EXPECT_EQ(corpus.id(1), "β");
    EXPECT_EQ(corpus.find("gamma-3"), 2);
    EXPECT_FALSE(corpus.find("gamma").has_value());
    corpus.verify();
    for (const CorpusSection& section : corpus.sections()) EXPECT_EQ(section.offset % 64, 0U) << section.name;
    EXPECT_FALSE(corpus.section("int8.tokens").given());
    EXPECT_EQ(corpus.section("cu_seqlens").numel(), 4);
}

TEST_F(CorpusTest, CoarseFormsAreThoseOfItsTokens) {
    const Coarse forms[] = {Coarse::bits, Coarse::int8, Coarse::fp8};
    CorpusWriter writer(at("c.rmx"), DType::f32, 2, forms);
    writer.append(TensorView(numbers_.data(), DType::f32, {2, 2}));
    TokenSet masked;  // hides the middle one of three tokens
    const bool mask[] = {true, false, true};
    masked.tokens = TensorView(numbers_.data() + 4, DType::f32, {3, 2});
    masked.mask = TensorView(mask, DType::boolean, {3});
    writer.append(masked);
    writer.commit();
    const Corpus corpus = Corpus::open(at("c.rmx"));
    corpus.verify();
    EXPECT_EQ(corpus.coarse_forms(), (std::vector<Coarse>{Coarse::int8, Coarse::fp8, Coarse::bits}));
    EXPECT_EQ(values_of<float>(corpus.tokens()), (std::vector<float>{0, 1, 2, 3, 4, 5, 8, 9}));
    for (const Coarse form : {Coarse::int8, Coarse::fp8}) {
        std::vector<std::int8_t> codes(8);
        std::vector<float> scale(4);
        const TokenSet set = corpus.coarse(form);
        const TensorView to(codes.data(), set.tokens.dtype, {4, 2});
        const TensorView to_scale(scale.data(), DType::f32, {4});
        if (form == Coarse::int8) quantize_int8(corpus.tokens(), Granularity::token, to, to_scale);
        if (form == Coarse::fp8) quantize_fp8(corpus.tokens(), false, to, to_scale);
        EXPECT_EQ(bytes_of(set.tokens), bytes_of(to));
        EXPECT_EQ(values_of<float>(set.scale), scale);
        EXPECT_EQ(set.cu_seqlens.shape[0], 3);
    }
    EXPECT_EQ(values_of<std::uint8_t>(corpus.coarse(Coarse::bits).tokens), (std::vector<std::uint8_t>{2, 3, 3, 3}));
    EXPECT_NE(corpus.coarse(Coarse::bits).residual, nullptr);
}

TEST_F(CorpusTest, WithoutCoarseFormsItSaysSo) {
    const Corpus corpus = Corpus::open(write_small(true));
    EXPECT_TRUE(corpus.coarse_forms().empty());
    expect_error(ErrorCode::invalid_value, {"c.rmx", "coarse form bits"}, [&] { (void)corpus.coarse(Coarse::bits); });
    expect_error(ErrorCode::invalid_value, {"int4"}, [] { (void)coarse_from_name("int4"); });
    for (const Coarse form : {Coarse::int8, Coarse::fp8, Coarse::bits})
        EXPECT_EQ(coarse_from_name(name_of(form)), form);
}

TEST_F(CorpusTest, WithoutIdsDocumentsAreCalledByNumber) {
    const Corpus corpus = Corpus::open(write_small(false));
    EXPECT_FALSE(corpus.has_ids());
    EXPECT_EQ(corpus.id(2), "2");
    EXPECT_EQ(corpus.find("2"), 2);
    for (const char* id : {"3", "-1", "02", "2 ", "", "x"}) EXPECT_FALSE(corpus.find(id).has_value()) << id;
    corpus.verify();
}

TEST_F(CorpusTest, LivesAsLongAsItsCopies) {
    std::optional<Corpus> first = Corpus::open(write_small(true));
    const Corpus second = *first;
    first.reset();
    fs::remove(at("c.rmx"));
    EXPECT_EQ(values_of<float>(second.tokens()), numbers_);
}

TEST_F(CorpusTest, EmptyCorpus) {
    CorpusWriter writer(at("e.rmx"), DType::bf16, 128);
    writer.commit();
    const Corpus corpus = Corpus::open(at("e.rmx"));
    EXPECT_EQ(corpus.count(), 0);
    EXPECT_EQ(shape_of(corpus.tokens()), (std::vector<std::int64_t>{0, 128}));
    corpus.verify();
}

TEST_F(CorpusTest, OutOfRange) {
    const Corpus corpus = Corpus::open(write_small(true));
    expect_error(ErrorCode::invalid_value, {"3"}, [&] { (void)corpus.document(3); });
    expect_error(ErrorCode::invalid_value, {"-1"}, [&] { (void)corpus.document(-1); });
    expect_error(ErrorCode::invalid_value, {"3"}, [&] { (void)corpus.id(3); });
}

TEST_F(CorpusTest, BatchesOfEveryLayout) {
    CorpusWriter writer(at("b.rmx"), DType::f32, 2);
    const std::vector<std::string> two{"a", "b"};
    // Dense with a mask that has holes.
    const std::vector<std::uint8_t> keep{1, 0, 0, 1};
    TokenSet dense;
    dense.tokens = TensorView(numbers_.data(), DType::f32, {2, 2, 2});
    dense.mask = TensorView(keep.data(), DType::boolean, {2, 2});
    writer.append(dense, two);
    // Packed, with offsets of 32 bits.
    const std::vector<std::int32_t> cu{0, 1, 5};
    TokenSet packed;
    packed.tokens = TensorView(numbers_.data(), DType::f32, {5, 2});
    packed.cu_seqlens = TensorView(cu.data(), DType::i32, {3});
    writer.append(packed, std::vector<std::string>{"c", "d"});
    // Ranges that overlap.
    const std::vector<std::int64_t> first{3, 2}, length{2, 2};
    TokenSet ranges;
    ranges.tokens = packed.tokens;
    ranges.offsets = TensorView(first.data(), DType::i64, {2});
    ranges.lengths = TensorView(length.data(), DType::i64, {2});
    writer.append(ranges, std::vector<std::string>{"e", "f"});
    // A transposed view.
    const std::array<std::int64_t, 2> shape{2, 2}, stride{1, 2};
    writer.append(TensorView(numbers_.data(), DType::f32, shape, stride), "g");
    EXPECT_EQ(writer.count(), 7);
    writer.commit();
    const Corpus corpus = Corpus::open(at("b.rmx"));
    corpus.verify();
    const std::vector<std::vector<float>> expected{{0, 1},       {6, 7},       {0, 1},      {2, 3, 4, 5, 6, 7, 8, 9},
                                                   {6, 7, 8, 9}, {4, 5, 6, 7}, {0, 2, 1, 3}};
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(values_of<float>(corpus.document(static_cast<std::int64_t>(i))), expected[i]) << i;
        EXPECT_EQ(corpus.id(static_cast<std::int64_t>(i)), std::string(1, static_cast<char>('a' + i)));
    }
}

TEST_F(CorpusTest, ManyRandomDocumentsThroughTheBuffers) {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> length(0, 40), value(0, 65535);
    std::vector<std::vector<std::uint16_t>> documents(20'000);
    CorpusWriter writer(at("r.rmx"), DType::f16, 8);
    for (std::size_t i = 0; i < documents.size(); ++i) {
        documents[i].resize(8 * static_cast<std::size_t>(length(random)));
        for (std::uint16_t& x : documents[i]) x = static_cast<std::uint16_t>(value(random));
        const auto rows = static_cast<std::int64_t>(documents[i].size() / 8);
        writer.append(TensorView(documents[i].data(), DType::f16, {rows, 8}), "document-" + std::to_string(i));
    }
    writer.commit();
    const Corpus corpus = Corpus::open(at("r.rmx"));
    corpus.verify();
    ASSERT_EQ(corpus.count(), 20'000);
    for (std::int64_t i = 0; i < corpus.count(); ++i) {
        ASSERT_EQ(values_of<std::uint16_t>(corpus.document(i)), documents[static_cast<std::size_t>(i)]) << i;
    }
    EXPECT_EQ(corpus.id(19'999), "document-19999");
    EXPECT_EQ(entries(), 1U);
}

TEST_F(CorpusTest, WriterRefusesWhatDoesNotFit) {
    const auto make = [&](DType dtype, std::int64_t dim) { CorpusWriter(at("x.rmx"), dtype, dim); };
    expect_error(ErrorCode::invalid_type, {"int8"}, [&] { make(DType::i8, 2); });
    expect_error(ErrorCode::invalid_value, {"dim: 0", "4096"}, [&] { make(DType::f32, 0); });
    expect_error(ErrorCode::invalid_value, {"dim: 4097", "4096"}, [&] { make(DType::f32, 4097); });
    CorpusWriter writer(at("x.rmx"), DType::f32, 2);
    const TensorView good(numbers_.data(), DType::f32, {2, 2});
    expect_error(ErrorCode::invalid_type, {"float64", "float32"}, [&] {
        writer.append(TensorView(numbers_.data(), DType::f64, {1, 2}));
    });
    expect_error(ErrorCode::invalid_value, {"dimension 5", "x.rmx", "2"}, [&] {
        writer.append(TensorView(numbers_.data(), DType::f32, {2, 5}));
    });
    expect_error(ErrorCode::invalid_value, {"[L, d]"},
                 [&] { writer.append(TensorView(numbers_.data(), DType::f32, {2})); });
    writer.append(good, "a");
    expect_error(ErrorCode::invalid_value, {"ids"}, [&] { writer.append(good); });
    expect_error(ErrorCode::data, {"white space"}, [&] { writer.append(good, "a b"); });
    TokenSet set;
    set.tokens = good;
    expect_error(ErrorCode::invalid_value, {"2 for 1"}, [&] {
        writer.append(set, std::vector<std::string>{"p", "q"});
    });
    writer.append(good, "b");  // refusals left the corpus as it was
    writer.commit();
    expect_error(ErrorCode::invalid_value, {"committed"}, [&] { writer.append(good, "c"); });
    expect_error(ErrorCode::invalid_value, {"committed"}, [&] { writer.commit(); });
    Corpus::open(at("x.rmx")).verify();
    EXPECT_EQ(Corpus::open(at("x.rmx")).count(), 2);
}

TEST_F(CorpusTest, NothingAppearsBeforeCommit) {
    write("x.rmx", "old");
    {
        CorpusWriter writer(at("x.rmx"), DType::f32, 2);
        for (int i = 0; i < 100'000; ++i) writer.append(TensorView(numbers_.data(), DType::f32, {5, 2}));
        EXPECT_EQ(contents(at("x.rmx")), "old");
    }
    EXPECT_EQ(contents(at("x.rmx")), "old");
    EXPECT_EQ(entries(), 1U);
}

TEST_F(CorpusTest, VerifyTellsHowFarItIsAndStopsWhenAsked) {
    CorpusWriter writer(at("x.rmx"), DType::f32, 4096);  // more than verify() reads at a time
    const std::vector<float> tokens(std::size_t{3000} * 4096);
    writer.append(TensorView(tokens.data(), DType::f32, {3000, 4096}), "a");
    writer.commit();
    const Corpus corpus = Corpus::open(at("x.rmx"));
    std::vector<std::uint64_t> seen{0};
    corpus.verify([&](std::uint64_t done, std::uint64_t total) {
        EXPECT_GT(done, seen.back());
        EXPECT_EQ(total, corpus.file_bytes());
        seen.push_back(done);
    });
    EXPECT_EQ(seen.back(), corpus.file_bytes());
    EXPECT_GT(seen.size(), corpus.sections().size() + 1);
    EXPECT_THROW(corpus.verify([](std::uint64_t, std::uint64_t) { throw std::runtime_error("stop"); }),
                 std::runtime_error);
}

TEST_F(CorpusTest, EqualIdsAreFoundByVerify) {
    CorpusWriter writer(at("x.rmx"), DType::f32, 2);
    for (const char* id : {"a", "b", "a"}) writer.append(TensorView(numbers_.data(), DType::f32, {1, 2}), id);
    writer.commit();
    const Corpus corpus = Corpus::open(at("x.rmx"));
    expect_error(ErrorCode::data, {"x.rmx", "'a'", "0", "2"}, [&] { corpus.verify(); });
}

// Any change of any byte that means something is found: by open() in the header, by verify() everywhere.
TEST_F(CorpusTest, EveryDamageIsFound) {
    const std::string good = contents(write_small(true));
    std::vector<bool> meaningful(good.size(), false);
    std::fill_n(meaningful.begin(), 4096, true);
    const Corpus sound = Corpus::open(at("c.rmx"));
    for (const CorpusSection& section : sound.sections()) {
        std::fill_n(meaningful.begin() + static_cast<std::ptrdiff_t>(section.offset), section.bytes, true);
    }
    const int accepted = accepted_when_damaged(
        good, good.size(),
        [&](const std::string& damaged) {
            const Corpus corpus = Corpus::open(write("d.rmx", damaged));
            for (std::int64_t i = 0; i < corpus.count(); ++i) (void)corpus.id(i);
            corpus.verify();
        },
        false);
    const auto padding = static_cast<int>(std::count(meaningful.begin(), meaningful.end(), false));
    EXPECT_EQ(accepted, padding);
    EXPECT_LT(padding, 4 * 64);
}

}  // namespace
}  // namespace rowmax::test
