// Headers that lie although their checksum is right: what a hostile file can do.
#include "io/corpus_format.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "io/support.hpp"

namespace rowmax::test {
namespace {

using io::CorpusHeader;

class CorpusFormat : public FileTest {
  protected:
    /// One document of two tokens, and room for more sections.
    static CorpusHeader header() {
        CorpusHeader h;
        h.file_bytes = 8192;
        h.count = 1;
        h.token_count = 2;
        h.max_length = 2;
        h.dim = 4;
        h.dtype = DType::f32;
        h.sections = {{"tokens", TensorView(nullptr, DType::f32, {2, 4}), 4096, 32, 0},
                      {"cu_seqlens", TensorView(nullptr, DType::i64, {2}), 4160, 16, 0},
                      {"ids.offsets", TensorView(nullptr, DType::i64, {2}), 4224, 16, 0},
                      {"ids.text", TensorView(nullptr, DType::u8, {3}), 4288, 3, 0}};
        return h;
    }

    static std::string file(const CorpusHeader& h) {
        const std::vector<std::byte> page = io::encode_corpus_header(h);
        std::string bytes(reinterpret_cast<const char*>(page.data()), page.size());
        bytes.resize(8192);
        return bytes;
    }

    void expect_bad(const std::vector<std::string>& parts, const std::function<void(CorpusHeader&)>& lie) const {
        CorpusHeader h = header();
        lie(h);
        std::vector<std::string> all = parts;
        all.emplace_back("x.rmx");
        const fs::path path = write("x.rmx", file(h));
        expect_error(ErrorCode::data, all, [&] { Corpus::open(path); });
    }
};

TEST_F(CorpusFormat, TheModelIsSound) {
    const Corpus corpus = Corpus::open(write("x.rmx", file(header())));
    EXPECT_EQ(corpus.sections().size(), 4U);
    expect_error(ErrorCode::data, {"cu_seqlens", "x.rmx"}, [&] { corpus.verify(); });
}

TEST_F(CorpusFormat, CountsThatLie) {
    expect_bad({"file size", "8193"}, [](CorpusHeader& h) { h.file_bytes = 8193; });
    expect_bad({"counts", "-1"}, [](CorpusHeader& h) { h.count = -1; });
    expect_bad({"counts"}, [](CorpusHeader& h) { h.count = std::numeric_limits<std::int64_t>::max(); });
    expect_bad({"cu_seqlens", "[2]", "[6]"}, [](CorpusHeader& h) { h.count = 5; });
    expect_bad({"tokens", "[3, 4]"}, [](CorpusHeader& h) { h.token_count = 3; });
    expect_bad({"counts", "-2"}, [](CorpusHeader& h) { h.token_count = -2; });
    expect_bad({"longest 3"}, [](CorpusHeader& h) { h.max_length = 3; });
    expect_bad({"dim: 0"}, [](CorpusHeader& h) { h.dim = 0; });
    expect_bad({"dim: 4097"}, [](CorpusHeader& h) { h.dim = 4097; });
    expect_bad({"tokens", "float16"}, [](CorpusHeader& h) { h.dtype = DType::f16; });
}

TEST_F(CorpusFormat, SectionsThatLie) {
    expect_bad({"'tokens'", "missing"}, [](CorpusHeader& h) { h.sections[0].name = "tokenz"; });
    expect_bad({"'cu_seqlens'", "missing"}, [](CorpusHeader& h) { h.sections.erase(h.sections.begin() + 1); });
    expect_bad({"'ids.text'", "missing"}, [](CorpusHeader& h) { h.sections.pop_back(); });
    expect_bad({"twice"}, [](CorpusHeader& h) { h.sections.push_back(h.sections[3]); });
    expect_bad({"name"}, [](CorpusHeader& h) { h.sections[0].name = ""; });
    expect_bad({"name", "\\x1b"}, [](CorpusHeader& h) { h.sections[0].name = "\x1b[2J"; });
    expect_bad({"overlap"}, [](CorpusHeader& h) { h.sections[2].offset = 4160; });
    for (const std::uint64_t offset :
         {std::uint64_t{0}, std::uint64_t{4100}, std::uint64_t{8192}, std::uint64_t{1} << 63, ~std::uint64_t{63}}) {
        expect_bad({"'tokens'", "offset"}, [&](CorpusHeader& h) { h.sections[0].offset = offset; });
    }
    for (const std::uint64_t bytes : {std::uint64_t{31}, std::uint64_t{0}, ~std::uint64_t{0}}) {
        expect_bad({"'tokens'", "bytes"}, [&](CorpusHeader& h) { h.sections[0].bytes = bytes; });
    }
    expect_bad({"'tokens'", "bytes"}, [](CorpusHeader& h) { h.sections[0].view.shape = {-2, -4}; });
    expect_bad({"'tokens'", "bytes"}, [](CorpusHeader& h) { h.sections[0].view.shape = {std::int64_t{1} << 62, 4}; });
    expect_bad({"'cu_seqlens'", "int32"},
               [](CorpusHeader& h) { h.sections[1].view = TensorView(nullptr, DType::i32, {4}); });
}

TEST_F(CorpusFormat, CoarseFormsThatLie) {
    const auto add = [](CorpusHeader& h, const char* name, DType dtype, std::initializer_list<std::int64_t> shape,
                        std::uint64_t offset) {
        const TensorView view(nullptr, dtype, shape);
        h.sections.push_back({name, view, offset, static_cast<std::uint64_t>(view.numel()) * size_of(dtype), 0});
    };
    CorpusHeader sound = header();
    add(sound, "int8.codes", DType::i8, {2, 4}, 4352);
    add(sound, "int8.scale", DType::f32, {2}, 4416);
    add(sound, "bits", DType::u8, {2, 1}, 4480);
    EXPECT_EQ(Corpus::open(write("x.rmx", file(sound))).coarse_forms().size(), 2U);
    expect_bad({"int8.scale", "missing"}, [&](CorpusHeader& h) { add(h, "int8.codes", DType::i8, {2, 4}, 4352); });
    expect_bad({"int8.codes", "missing"}, [&](CorpusHeader& h) { add(h, "int8.scale", DType::f32, {2}, 4352); });
    expect_bad({"bits", "[2, 2]", "[2, 1]"}, [&](CorpusHeader& h) { add(h, "bits", DType::u8, {2, 2}, 4352); });
    expect_bad({"fp8.codes", "int8", "uint8"}, [&](CorpusHeader& h) {
        add(h, "fp8.codes", DType::i8, {2, 4}, 4352);
        add(h, "fp8.scale", DType::f32, {2}, 4416);
    });
}

TEST_F(CorpusFormat, FieldsBeyondTheStructure) {
    const std::string good = file(header());
    const auto patched = [&](std::size_t place, std::uint32_t value) {
        std::string bad = good;
        std::memcpy(bad.data() + place, &value, 4);
        const std::uint32_t zero = 0;
        std::memcpy(bad.data() + 12, &zero, 4);
        const std::uint32_t crc = io::crc32_of(std::as_bytes(std::span(bad)).first(io::corpus_page));
        std::memcpy(bad.data() + 12, &crc, 4);
        return write("x.rmx", bad);
    };
    Corpus::open(patched(60, 0));
    expect_error(ErrorCode::data, {"version: 2"}, [&] { Corpus::open(patched(8, 2)); });
    expect_error(ErrorCode::data, {"dtype: number 77"}, [&] { Corpus::open(patched(52, 77)); });
    expect_error(ErrorCode::data, {"sections: 43", "42"}, [&] { Corpus::open(patched(56, 43)); });
    expect_error(ErrorCode::data, {"'tokens'", "ndim: 5"}, [&] { Corpus::open(patched(64 + 36, 5)); });
    expect_error(ErrorCode::data, {"'tokens'", "dtype: number 10"}, [&] { Corpus::open(patched(64 + 32, 10)); });
}

TEST_F(CorpusFormat, OffsetsThatLieAreFoundWhenUsed) {
    std::string bytes = file(header());
    const std::int64_t cu[2] = {0, std::int64_t{1} << 62};
    const std::int64_t ids[2] = {2, -1};
    std::memcpy(bytes.data() + 4160, cu, sizeof(cu));
    std::memcpy(bytes.data() + 4224, ids, sizeof(ids));
    const Corpus corpus = Corpus::open(write("x.rmx", bytes));
    expect_error(ErrorCode::data, {"cu_seqlens", "4611686018427387904"}, [&] { (void)corpus.document(0); });
    expect_error(ErrorCode::data, {"ids.offsets", "-1"}, [&] { (void)corpus.id(0); });
    expect_error(ErrorCode::data, {"ids.offsets"}, [&] { (void)corpus.find("x"); });
}

// The numbers of docs/formats.md: a file written today must open for ever.
TEST_F(CorpusFormat, BytesAreTheDocumentedOnes) {
    const std::string bytes = file(header());
    EXPECT_EQ(bytes.substr(0, 8), std::string("ROWMAX\x1a\n"));
    const auto u32 = [&](std::size_t at) {
        std::uint32_t v;
        std::memcpy(&v, bytes.data() + at, 4);
        return v;
    };
    const auto u64 = [&](std::size_t at) {
        std::uint64_t v;
        std::memcpy(&v, bytes.data() + at, 8);
        return v;
    };
    EXPECT_EQ(u32(8), 1U);
    EXPECT_EQ(u64(16), 8192U);
    EXPECT_EQ(u64(24), 1U);
    EXPECT_EQ(u64(32), 2U);
    EXPECT_EQ(u64(40), 2U);
    EXPECT_EQ(u32(48), 4U);
    EXPECT_EQ(u32(52), 2U);
    EXPECT_EQ(u32(56), 4U);
    EXPECT_STREQ(bytes.data() + 64, "tokens");
    EXPECT_EQ(u32(96), 2U);
    EXPECT_EQ(u32(100), 2U);
    EXPECT_EQ(u64(104), 2U);
    EXPECT_EQ(u64(112), 4U);
    EXPECT_EQ(u64(136), 4096U);
    EXPECT_EQ(u64(144), 32U);
    EXPECT_STREQ(bytes.data() + 160, "cu_seqlens");
    EXPECT_EQ(u32(160 + 32), 8U);
}

}  // namespace
}  // namespace rowmax::test
