// PLAID indexes: what is read, and what is wrong with folders that are none.
#include "io/plaid_index.hpp"

#include <gtest/gtest.h>

#include "io/npy.hpp"
#include "io/support.hpp"
#include "support/array.hpp"

namespace rowmax::io {
namespace {

using test::Array;
using test::expect_error;
namespace fs = std::filesystem;

class PlaidIndexTest : public test::FileTest {
  protected:
    void SetUp() override {
        FileTest::SetUp();
        text("metadata.json", R"({"num_chunks": 2, "nbits": 4, "num_partitions": 3})");
        array("centroids.npy", Array(DType::f16, {3, 8}, {1, 2, 3}));
        array("bucket_weights.npy", Array(DType::f32, {16}, {0.5}));
        chunk(0, "[2, 0, 1]", 3);
        chunk(1, "[]", 0);
    }

    void text(const std::string& name, const std::string& content) const { write(name, content); }
    void array(const std::string& name, const Array& values) const {
        OutputFile out(at(name));
        write_npy(out, values.view());
        out.commit();
    }
    void chunk(int number, const std::string& lengths, std::int64_t tokens) const {
        const std::string prefix = std::to_string(number);
        text("doclens." + prefix + ".json", lengths);
        array(prefix + ".codes.npy", Array(DType::i64, {tokens}, {0, 1, 2}));
        array(prefix + ".residuals.npy", Array(DType::u8, {tokens, 4}, {7}));
    }
    void expect_wrong(ErrorCode code, const std::vector<std::string>& texts) const {
        expect_error(code, texts, [&] { PlaidIndex::open(folder_); });
    }
};

TEST_F(PlaidIndexTest, IsRead) {
    EXPECT_TRUE(is_plaid_index(folder_));
    const PlaidIndex index = PlaidIndex::open(folder_);
    EXPECT_EQ(index.count(), 3);
    EXPECT_EQ(index.token_count(), 3);
    EXPECT_EQ(index.dim(), 8);
    EXPECT_EQ(index.nbits(), 4);
    EXPECT_EQ(index.centroid_count(), 3);
    ASSERT_EQ(index.chunks().size(), 2U);
    EXPECT_EQ(index.chunks()[1].count(), 0);
    const ResidualTables tables = index.tables();
    std::vector<std::int64_t> cu_seqlens;
    const TokenSet set = PlaidIndex::documents(index.chunks()[0], 1, 3, tables, cu_seqlens);
    EXPECT_EQ(cu_seqlens, (std::vector<std::int64_t>{0, 0, 1}));
    EXPECT_EQ(set.codes.shape[0], 1);
    EXPECT_EQ(*static_cast<const std::int64_t*>(set.codes.data), 2);
    ScoreRequest request;
    const Array q(DType::f32, {2, 8}, {1});
    request.q.tokens = q.view();
    request.d = set;
    const Array scores(DType::f32, {2});
    score(request, {scores.view(), {}, {}});
    EXPECT_EQ(scores[0], 0);
    EXPECT_GT(scores[1], 0);
}

TEST_F(PlaidIndexTest, TypesOfNextPlaidAreReadToo) {
    array("centroids.npy", Array(DType::f32, {3, 8}, {1, 2, 3}));
    array("0.codes.npy", Array(DType::i32, {3}, {0, 1, 2}));
    EXPECT_EQ(PlaidIndex::open(folder_).centroid_dtype(), DType::f32);
}

// As fast-plaid leaves them once it has opened an index: one file for all chunks, and rows of padding.
TEST_F(PlaidIndexTest, MergedFilesAreReadWhereChunksAreGone) {
    chunk(1, "[4]", 4);
    for (const char* name : {"0.codes.npy", "1.codes.npy", "0.residuals.npy", "1.residuals.npy"}) fs::remove(at(name));
    array("merged_codes.npy", Array(DType::i64, {9}, {0, 1, 2, 2, 1, 0, 1, 0, 0}));
    array("merged_residuals.npy", Array(DType::u8, {9, 4}, {1, 2, 3, 4, 5}));
    const PlaidIndex index = PlaidIndex::open(folder_);
    EXPECT_EQ(index.count(), 4);
    EXPECT_EQ(index.token_count(), 7);
    EXPECT_EQ(test::values_of<std::int64_t>(index.chunks()[1].codes.view), (std::vector<std::int64_t>{2, 1, 0, 1}));
    EXPECT_EQ(test::values_of<std::uint8_t>(index.chunks()[1].residuals.view)[0], 3);  // of row 3, bytes 12 ..
    array("merged_codes.npy", Array(DType::i64, {6}, {0}));
    expect_wrong(ErrorCode::data, {"merged_codes.npy", "6 rows", "7 tokens"});
}

TEST_F(PlaidIndexTest, WhatIsWrongIsNamed) {
    text("doclens.0.json", "[2, 0, 2]");
    expect_wrong(ErrorCode::data, {"0.codes", "3 codes", "doclens.0.json", "4 tokens"});
    text("doclens.0.json", "[2, -1, 2]");
    expect_wrong(ErrorCode::data, {"doclens.0.json", "length 1", "-1"});
    text("doclens.0.json", "{}");
    expect_wrong(ErrorCode::data, {"doclens.0.json", "list"});
    text("doclens.0.json", "[2, 0");
    expect_wrong(ErrorCode::data, {"doclens.0.json", "JSON"});
    text("doclens.0.json", "[2, 0, 1]");
    array("0.residuals.npy", Array(DType::u8, {3, 2}));
    expect_wrong(ErrorCode::data, {"0.residuals", "[3, 2]", "[3, 4]"});
    array("0.residuals.npy", Array(DType::i8, {3, 4}));
    expect_wrong(ErrorCode::data, {"0.residuals.npy", "int8", "uint8"});
    fs::remove(at("0.residuals.npy"));
    expect_wrong(ErrorCode::io, {"0.residuals.npy"});
    array("bucket_weights.npy", Array(DType::f32, {4}));
    expect_wrong(ErrorCode::data, {"bucket_weights", "4 weights", "nbits is 4"});
    array("centroids.npy", Array(DType::f64, {3, 8}));
    expect_wrong(ErrorCode::data, {"centroids.npy", "float64", "float16 or float32"});
    text("metadata.json", R"({"num_chunks": 2, "nbits": 3})");
    expect_wrong(ErrorCode::data, {"metadata.json", "nbits", "3"});
    text("metadata.json", R"({"num_chunks": 2})");
    expect_wrong(ErrorCode::data, {"metadata.json", "nbits is missing"});
    text("metadata.json", R"({"num_chunks": "2", "nbits": 4})");
    fs::rename(at("centroids.npy"), at("centroids.pt"));
    expect_wrong(ErrorCode::data, {"centroids.pt", "zip"});
}

}  // namespace
}  // namespace rowmax::io
