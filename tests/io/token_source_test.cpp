#include "io/token_source.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "io/builders.hpp"
#include "io/support.hpp"
#include "io/token_items.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::test {
namespace {

using io::load_tokens;
using io::TokenSource;

/// Two items of three tokens of dimension 2, counted from 0.
const std::vector<float> twelve{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
const std::string dense = npy("<f4", "(2, 3, 2)", raw_list(twelve));
const std::string packed = npy("<f4", "(6, 2)", raw_list(twelve));

std::string list64(const std::vector<std::int64_t>& values) {
    return npy("<i8", fmt::format("({},)", values.size()), raw_list(values));
}

class TokenSourceTest : public FileTest {
  protected:
    [[nodiscard]] TokenSource load_npz(const std::vector<ZipEntry>& entries,
                                       const io::LoadOptions& options = {}) const {
        return load_tokens(write("x.bin", zip(entries)), options);
    }
    void expect_bad(const std::vector<ZipEntry>& entries, std::vector<std::string> parts,
                    const io::LoadOptions& options = {}) const {
        parts.emplace_back("x.bin");
        expect_error(ErrorCode::data, parts, [&] { (void)load_npz(entries, options); });
    }
};

TEST_F(TokenSourceTest, DenseNpy) {
    const TokenSource source = load_tokens(write("x", dense));
    EXPECT_EQ(source.format(), "npy");
    EXPECT_EQ(source.count(), 2);
    EXPECT_EQ(source.dim(), 2);
    EXPECT_EQ(source.max_length(), 3);
    EXPECT_EQ(source.token_count(), 6);
    EXPECT_EQ(source.id(1), "1");
    EXPECT_EQ(source.all().copied_bytes, 0);
    EXPECT_EQ(items_of(source.all().set), (Items{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}));
    EXPECT_EQ(items_of(source.block(1, 2).set), (Items{{6, 7, 8, 9, 10, 11}}));
    EXPECT_EQ(items_of(source.block(2, 2).set), Items{});
    expect_error(ErrorCode::invalid_value, {"[1, 3)"}, [&] { (void)source.block(1, 3); });
}

TEST_F(TokenSourceTest, TwoDimensionsAreOneItem) {
    const TokenSource source = load_tokens(write("x", packed));
    EXPECT_EQ(source.count(), 1);
    EXPECT_EQ(source.length(0), 6);
    EXPECT_EQ(items_of(source.all().set).at(0), twelve);
    expect_error(ErrorCode::data, {"[12]"},
                 [&] { (void)load_tokens(write("y", npy("<f4", "(12,)", raw_list(twelve)))); });
    expect_error(ErrorCode::data, {"int32"},
                 [&] { (void)load_tokens(write("y", npy("<i4", "(6, 2)", raw_list(twelve)))); });
    expect_error(ErrorCode::data, {"int16", "dtype"},
                 [&] { (void)load_tokens(write("y", npy("<i2", "(12, 2)", raw_list(twelve)))); });
    EXPECT_EQ(load_tokens(write("y", npy("<i2", "(12, 2)", raw_list(twelve))), {.dtype = "bfloat16"}).dtype(),
              DType::bf16);
}

TEST_F(TokenSourceTest, DenseWithMask) {
    const ZipEntry tokens{.name = "tokens.npy", .data = dense};
    const auto source =
        load_npz({tokens, {.name = "mask.npy", .data = npy("|b1", "(2, 3)", std::string("\1\0\1\0\0\1", 6))}});
    EXPECT_EQ(items_of(source.all().set), (Items{{0, 1, 4, 5}, {10, 11}}));
    EXPECT_EQ(items_of(source.block(1, 2).set), (Items{{10, 11}}));
    const auto shared =
        load_npz({tokens, {.name = "mask.npy", .data = npy("<f4", "(3,)", raw_list<float>({0, 2, 0}))}});
    EXPECT_EQ(items_of(shared.block(1, 2).set), (Items{{8, 9}}));
    expect_bad({tokens, {.name = "mask.npy", .data = npy("|b1", "(3, 2)", std::string(6, '\1'))}},
               {"mask", "[3, 2]", "[2, 3, 2]"});
    expect_bad({tokens, {.name = "mask.npy", .data = npy("|b1", "(1, 2, 3)", std::string(6, '\1'))}}, {"mask"});
}

TEST_F(TokenSourceTest, DenseWithLengths) {
    const ZipEntry tokens{.name = "tokens.npy", .data = dense};
    const auto source = load_npz({tokens, {.name = "lengths.npy", .data = list64({1, 2})}});
    EXPECT_EQ(items_of(source.all().set), (Items{{0, 1}, {6, 7, 8, 9}}));
    EXPECT_EQ(items_of(source.block(1, 2).set), (Items{{6, 7, 8, 9}}));
    EXPECT_EQ(source.max_length(), 2);
    EXPECT_EQ(source.token_count(), 3);
    expect_bad({tokens, {.name = "lengths.npy", .data = list64({1, 4})}}, {"lengths[1]: 4", "0 to 3"});
    expect_bad({tokens, {.name = "lengths.npy", .data = list64({-1, 2})}}, {"lengths[0]: -1"});
    expect_bad({tokens, {.name = "lengths.npy", .data = list64({1})}}, {"lengths: 1", "[2, 3, 2]"});
    expect_bad({tokens, {.name = "lengths.npy", .data = npy("<f4", "(2,)", raw_list<float>({1, 2}))}},
               {"lengths: float32"});
    expect_bad({tokens,
                {.name = "lengths.npy", .data = list64({1, 2})},
                {.name = "mask.npy", .data = npy("|b1", "(3,)", "abc")}},
               {"mask", "excludes"});
}

TEST_F(TokenSourceTest, Packed) {
    const ZipEntry tokens{.name = "tokens.npy", .data = packed};
    const Items expected{{0, 1}, {}, {2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
    for (const char* name : {"cu_seqlens.npy", "offsets.npy"}) {
        const auto source = load_npz({tokens, {.name = name, .data = list64({0, 1, 1, 6})}});
        EXPECT_EQ(items_of(source.all().set), expected);
        EXPECT_EQ(items_of(source.block(1, 3).set), (Items{{}, expected[2]}));
    }
    const auto narrow =
        load_npz({tokens, {.name = "offsets.npy", .data = npy("<i4", "(4,)", raw_list<std::int32_t>({0, 1, 1, 6}))}});
    EXPECT_EQ(items_of(narrow.all().set), expected);
    const auto lengths = load_npz({tokens, {.name = "doclens.npy", .data = list64({1, 0, 5})}});
    EXPECT_EQ(items_of(lengths.all().set), expected);
    const auto ranges = load_npz({tokens,
                                  {.name = "offsets.npy", .data = list64({4, 0, 3})},
                                  {.name = "lengths.npy", .data = list64({1, 2, 2})}});
    EXPECT_EQ(items_of(ranges.all().set), (Items{{8, 9}, {0, 1, 2, 3}, {6, 7, 8, 9}}));
    EXPECT_EQ(items_of(ranges.block(2, 3).set), (Items{{6, 7, 8, 9}}));
    EXPECT_EQ(ranges.block(2, 3).set.tokens.shape[0], 2);  // no more than it needs
}

TEST_F(TokenSourceTest, PackedThatLies) {
    const ZipEntry tokens{.name = "tokens.npy", .data = packed};
    const auto bad = [&](const char* name, const std::vector<std::int64_t>& values, std::vector<std::string> parts) {
        expect_bad({tokens, {.name = name, .data = list64(values)}}, std::move(parts));
    };
    bad("cu_seqlens.npy", {}, {"cu_seqlens", "empty"});
    bad("cu_seqlens.npy", {1, 6}, {"cu_seqlens[0]: 1"});
    bad("cu_seqlens.npy", {0, 4, 3, 6}, {"cu_seqlens[2]: 3 after 4"});
    bad("cu_seqlens.npy", {0, 7}, {"cu_seqlens[1]: 7", "6 tokens"});
    bad("cu_seqlens.npy", {0, std::numeric_limits<std::int64_t>::max()}, {"9223372036854775807"});
    bad("cu_seqlens.npy", {0, std::numeric_limits<std::int64_t>::min(), 6}, {"cu_seqlens[1]"});
    bad("lengths.npy", {1, 2}, {"sum to 3", "6 tokens"});
    bad("lengths.npy", {5, 2}, {"lengths[1]: 2", "0 to 1"});
    bad("lengths.npy", {std::numeric_limits<std::int64_t>::max(), 1}, {"lengths[0]"});
    const auto ranges = [&](std::vector<std::int64_t> offsets, std::vector<std::int64_t> lengths,
                            std::vector<std::string> parts) {
        expect_bad({tokens,
                    {.name = "offsets.npy", .data = list64(offsets)},
                    {.name = "lengths.npy", .data = list64(lengths)}},
                   std::move(parts));
    };
    ranges({0, 1}, {1}, {"2 and 1"});
    ranges({-1}, {1}, {"-1 and 1"});
    ranges({6}, {1}, {"6 and 1"});
    ranges({std::numeric_limits<std::int64_t>::max()}, {std::numeric_limits<std::int64_t>::max()}, {"offsets[0]"});
    expect_bad({{.name = "tokens.npy", .data = dense}, {.name = "cu_seqlens.npy", .data = list64({0, 6})}},
               {"[2, 3, 2]", "[T, d]"});
}

TEST_F(TokenSourceTest, ChoosesTheTokens) {
    EXPECT_EQ(load_npz({{.name = "arr_0.npy", .data = dense}}).count(), 2);
    EXPECT_EQ(load_npz({{.name = "weights.npy", .data = dense}, {.name = "tokens.npy", .data = packed}}).count(), 1);
    expect_bad({{.name = "a.npy", .data = dense}, {.name = "b.npy", .data = dense}},
               {"2 arrays", "a <f4 [2, 3, 2]", "b "});
    expect_bad({{.name = "n.npy", .data = list64({1})}}, {"0 arrays", "n <i8 [1]"});
    expect_bad({{.name = "a.npy", .data = dense}}, {"'b'"}, {.tensor = "b"});
    const std::vector<ZipEntry> both{
        {.name = "queries.npy", .data = dense},
        {.name = "documents.npy", .data = packed},
        {.name = "documents_cu_seqlens.npy", .data = list64({0, 2, 6})},
        {.name = "queries_mask.npy", .data = npy("|b1", "(3,)", std::string("\1\0\0", 3))}};
    EXPECT_EQ(items_of(load_npz(both, {.tensor = "queries"}).all().set), (Items{{0, 1}, {6, 7}}));
    EXPECT_EQ(load_npz(both, {.tensor = "documents"}).length(1), 4);
    const auto halves = npy("<u2", "(2, 6, 2)", raw_list(twelve));
    EXPECT_EQ(load_npz({{.name = "a.npy", .data = halves}}, {.dtype = "bfloat16"}).dtype(), DType::bf16);
    expect_error(ErrorCode::invalid_type, {"bfloat17"},
                 [&] { (void)load_tokens(write("d", dense), {.dtype = "bfloat17"}); });
    expect_error(ErrorCode::invalid_value, {"tensor 'a'"},
                 [&] { (void)load_tokens(write("d", dense), {.tensor = "a"}); });
}

TEST_F(TokenSourceTest, MisalignedTokensAreCopiedBlockByBlock) {
    const auto source = load_npz({{.name = "x.npy", .data = dense}});
    const io::TokenBlock block = source.block(1, 2);
    EXPECT_EQ(block.copied_bytes, 24);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.set.tokens.data) % 4, 0U);
    EXPECT_EQ(items_of(block.set), (Items{{6, 7, 8, 9, 10, 11}}));
}

TEST_F(TokenSourceTest, Ids) {
    const ZipEntry tokens{.name = "tokens.npy", .data = dense};
    EXPECT_EQ(load_npz({tokens, {.name = "ids.npy", .data = npy("|S1", "(2,)", "ab")}}).id(1), "b");
    EXPECT_EQ(load_npz({tokens, {.name = "ids.npy", .data = list64({70, 71})}}).id(1), "71");
    expect_bad({tokens, {.name = "ids.npy", .data = npy("|S1", "(2,)", "aa")}}, {"'a'", "0", "1"});
    expect_bad({tokens, {.name = "ids.npy", .data = npy("|S1", "(2,)", "a\n")}}, {"id 1", "control"});
    expect_bad({tokens, {.name = "ids.npy", .data = npy("|S1", "(3,)", "abc")}}, {"3", "2"});
    expect_bad({tokens, {.name = "ids.npy", .data = npy("|O", "(2,)", "pickle")}}, {"ids", "|O"});
    const auto options = io::LoadOptions{.ids = write("ids.txt", "x\r\ny")};
    EXPECT_EQ(load_npz({tokens, {.name = "ids.npy", .data = npy("|O", "(2,)", "pickle")}}, options).id(1), "y");
    expect_error(ErrorCode::data, {"ids.txt:2", "empty"},
                 [&] { (void)load_npz({tokens}, {.ids = write("ids.txt", "x\n\ny")}); });
    expect_bad({tokens}, {"3", "2"}, {.ids = write("ids.txt", "x\ny\nz\n")});
}

TEST_F(TokenSourceTest, SafetensorsAndCorpus) {
    const std::string header =
        R"({"emb":{"dtype":"F32","shape":[6,2],"data_offsets":[16,64]},"lengths":{"dtype":"I32","shape":[4],"data_offsets":[0,16]}})";
    const auto tensors =
        load_tokens(write("s", safetensors(header, raw_list<std::int32_t>({1, 2, 0, 3}) + raw_list(twelve))));
    EXPECT_EQ(tensors.format(), "safetensors");
    const Items expected{{0, 1}, {2, 3, 4, 5}, {}, {6, 7, 8, 9, 10, 11}};
    EXPECT_EQ(items_of(tensors.all().set), expected);
    CorpusWriter writer(at("c"), DType::f32, 2);
    writer.append(tensors.all().set, std::vector<std::string>{"a", "b", "c", "d"});
    writer.commit();
    const auto corpus = load_tokens(at("c"));
    EXPECT_EQ(corpus.format(), "corpus");
    EXPECT_EQ(items_of(corpus.all().set), expected);
    EXPECT_EQ(corpus.id(3), "d");
    EXPECT_EQ(corpus.all().copied_bytes, 0);
    expect_error(ErrorCode::invalid_type, {"float32", "bfloat16"},
                 [&] { (void)load_tokens(at("c"), {.dtype = "bfloat16"}); });
}

TEST_F(TokenSourceTest, Folder) {
    fs::create_directory(at("f"));
    const auto add = [&](const std::string& name, std::size_t first, std::size_t rows) {
        write("f/" + name,
              npy("<f4", fmt::format("({}, 2)", rows),
                  raw_list(std::vector<float>(twelve.begin() + static_cast<std::ptrdiff_t>(2 * first),
                                              twelve.begin() + static_cast<std::ptrdiff_t>(2 * (first + rows))))));
    };
    add("doc10.npy", 0, 1);
    add("doc2.npy", 1, 2);
    add("doc02.npy", 3, 0);
    add("Doc.npy", 3, 3);
    write("f/readme.txt", "not a document");
    write("f/.hidden.npy", "not a document");
    const auto source = load_tokens(at("f"));
    EXPECT_EQ(source.format(), "folder");
    std::string names;
    for (std::int64_t i = 0; i < source.count(); ++i) names += source.id(i) + " ";
    EXPECT_EQ(names, "Doc doc02 doc2 doc10 ");
    EXPECT_EQ(items_of(source.all().set), (Items{{6, 7, 8, 9, 10, 11}, {}, {2, 3, 4, 5}, {0, 1}}));
    EXPECT_EQ(items_of(source.block(2, 3).set), (Items{{2, 3, 4, 5}}));
    EXPECT_EQ(source.block(2, 3).copied_bytes, 16);
    EXPECT_EQ(source.token_count(), 6);
    add("doc2.npy", 1, 3);
    expect_error(ErrorCode::data, {"doc2.npy", "[3, 2]", "2 tokens"}, [&] { (void)source.all(); });
    fs::remove(at("f/doc2.npy"));
    expect_error(ErrorCode::io, {"doc2.npy"}, [&] { (void)source.all(); });
}

TEST_F(TokenSourceTest, FolderThatDoesNotFit) {
    fs::create_directory(at("f"));
    expect_error(ErrorCode::data, {at("f").string(), "no .npy"}, [&] { (void)load_tokens(at("f")); });
    write("f/a.npy", packed);
    write("f/b.npy", npy("<f4", "(4, 3)", raw_list(twelve)));
    expect_error(ErrorCode::data, {"b.npy", "[4, 3]", "a.npy", "dimension 2"}, [&] { (void)load_tokens(at("f")); });
    write("f/b.npy", npy("<f8", "(3, 2)", raw_list(twelve)));
    expect_error(ErrorCode::data, {"b.npy", "float64", "float32"}, [&] { (void)load_tokens(at("f")); });
    write("f/b.npy", dense);
    expect_error(ErrorCode::data, {"b.npy", "[2, 3, 2]", "[L, d]"}, [&] { (void)load_tokens(at("f")); });
    write("f/b.npy", dense.substr(0, 40));
    expect_error(ErrorCode::data, {"b.npy", "header"}, [&] { (void)load_tokens(at("f")); });
    fs::remove(at("f/b.npy"));
    write("f/page 1.npy", packed);
    expect_error(ErrorCode::data, {"page 1", "white space"}, [&] { (void)load_tokens(at("f")); });
    EXPECT_EQ(load_tokens(at("f"), {.ids = write("ids", "a\npage1\n")}).id(1), "page1");
}

TEST_F(TokenSourceTest, UnknownContent) {
    expect_error(ErrorCode::data, {"x", "empty"}, [&] { (void)load_tokens(write("x", "")); });
    expect_error(ErrorCode::data, {"x", "hello", "safetensors"},
                 [&] { (void)load_tokens(write("x", "hello world, a text")); });
    expect_error(ErrorCode::io, {"none"}, [&] { (void)load_tokens(at("none")); });
}

TEST_F(TokenSourceTest, InMemory) {
    auto owner = std::make_shared<const std::vector<float>>(twelve);
    TokenSet set;
    set.tokens = TensorView(owner->data(), DType::f32, {2, 3, 2});
    const std::weak_ptr<const std::vector<float>> watch = owner;
    auto block = io::tokens_in_memory(set, io::Ids(2), owner).block(1, 2);
    const std::vector<std::int64_t> cu{0, 9};
    set.cu_seqlens = TensorView(cu.data(), DType::i64, {2});
    set.tokens = TensorView(owner->data(), DType::f32, {6, 2});
    expect_error(ErrorCode::invalid_value, {"cu_seqlens", "9"}, [&] { (void)io::tokens_in_memory(set, io::Ids(1)); });
    owner.reset();  // the block alone keeps its memory now
    EXPECT_EQ(items_of(block.set), (Items{{6, 7, 8, 9, 10, 11}}));
    block = {};
    EXPECT_TRUE(watch.expired());
}

TEST_F(TokenSourceTest, BlockEnds) {
    const auto source =
        load_npz({{.name = "tokens.npy", .data = packed}, {.name = "lengths.npy", .data = list64({1, 0, 3, 0, 2})}});
    EXPECT_EQ(source.block_end(0, 8), 2);
    EXPECT_EQ(source.block_end(0, 31), 2);
    EXPECT_EQ(source.block_end(0, 32), 4);
    EXPECT_EQ(source.block_end(2, 0), 3);  // one item at least
    EXPECT_EQ(source.block_end(0, 1 << 20), 5);
    EXPECT_EQ(source.block_end(5, 1 << 20), 5);
}

}  // namespace
}  // namespace rowmax::test
