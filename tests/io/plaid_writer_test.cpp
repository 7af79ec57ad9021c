// Indexes written and read back: tokens come back near, files are whole, and nothing is left where that fails.
#include "io/plaid_writer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "io/kmeans.hpp"
#include "io/npy.hpp"
#include "io/plaid_index.hpp"
#include "io/residual_codec.hpp"
#include "io/support.hpp"
#include "support/array.hpp"

namespace rowmax::io {
namespace {

using test::Array;
using test::expect_error;
namespace fs = std::filesystem;

/// Tokens around a few directions, as those of texts are.
Array clustered(DType dtype, std::int64_t count, std::int64_t dim, double spread) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    constexpr std::size_t directions = 12;
    std::vector<double> centres(directions * static_cast<std::size_t>(dim));
    for (double& x : centres) x = normal(random);
    Array tokens(dtype, {count, dim});
    for (std::size_t t = 0; t < static_cast<std::size_t>(count); ++t) {
        const std::size_t centre = std::uniform_int_distribution<std::size_t>(0, directions - 1)(random);
        for (std::size_t k = 0; k < static_cast<std::size_t>(dim); ++k) {
            const double x = centres[centre * static_cast<std::size_t>(dim) + k] + spread * normal(random);
            tokens.set(t * static_cast<std::size_t>(dim) + k, x);
        }
    }
    return tokens;
}

class PlaidWriterTest : public test::FileTest {
  protected:
    static constexpr std::int64_t dim = 16;
    [[nodiscard]] TokenSource source(std::vector<std::int64_t> lengths, DType dtype = DType::f32) {
        starts_ = {0};
        for (const std::int64_t length : lengths) starts_.push_back(starts_.back() + length);
        tokens_ = clustered(dtype, starts_.back(), dim, 0.2);
        TokenSet set;
        set.tokens = tokens_.view();
        set.cu_seqlens = TensorView(starts_.data(), DType::i64, {static_cast<std::int64_t>(starts_.size())});
        return tokens_in_memory(set, Ids(static_cast<std::int64_t>(lengths.size())));
    }
    [[nodiscard]] std::map<std::string, std::string> files(const std::string& folder) const {
        std::map<std::string, std::string> all;
        for (const auto& entry : fs::directory_iterator(at(folder)))
            all[entry.path().filename().string()] = test::contents(entry.path());
        return all;
    }
    /// Products of tokens of length 1 with what is read back for them.
    [[nodiscard]] std::vector<double> cosines(const std::string& folder) const {
        const PlaidIndex index = PlaidIndex::open(at(folder));
        const ResidualTables tables = index.tables();
        std::vector<double> all;
        std::size_t token = 0;
        for (const PlaidChunk& chunk : index.chunks()) {
            for (std::int64_t t = 0; t < chunk.codes.view.shape[0]; ++t, ++token) {
                ScoreRequest request;
                Array query(DType::f32, {1, dim});
                double norm = 0;
                for (std::size_t k = 0; k < dim; ++k) norm += std::pow(tokens_[token * dim + k], 2);
                for (std::size_t k = 0; k < dim; ++k) query.set(k, tokens_[token * dim + k] / std::sqrt(norm));
                const std::int64_t offsets[] = {t};
                const std::int64_t lengths[] = {1};
                request.q.tokens = query.view();
                request.d.tokens = chunk.residuals.view;
                request.d.codes = chunk.codes.view;
                request.d.offsets = TensorView(offsets, DType::i64, {1});
                request.d.lengths = TensorView(lengths, DType::i64, {1});
                request.d.residual = &tables;
                const Array score_of(DType::f32, {1});
                score(request, {score_of.view(), {}, {}});
                all.push_back(score_of[0]);
            }
        }
        return all;
    }

    std::vector<std::int64_t> starts_;
    Array tokens_{DType::f32, {0, dim}};
};

std::vector<std::int64_t> lengths_of(std::int64_t documents) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < documents; ++i) lengths.push_back(i * 7 % 31);
    return lengths;
}

TEST_F(PlaidWriterTest, TokensComeBackTheNearerTheMoreBits) {
    double before = 0;
    for (const int nbits : {1, 2, 4, 8}) {
        const TokenSource tokens = source(lengths_of(60), nbits == 2 ? DType::f16 : DType::f32);
        const std::string name = "index" + std::to_string(nbits);
        const PlaidWriteReport report = write_plaid_index(tokens, at(name), {.nbits = nbits, .centroids = 12});
        EXPECT_EQ(report.documents, 60);
        EXPECT_EQ(report.tokens, starts_.back());
        EXPECT_EQ(report.centroids, 12);
        const std::vector<double> near = cosines(name);
        ASSERT_EQ(static_cast<std::int64_t>(near.size()), starts_.back());
        double mean = 0;
        for (const double x : near) mean += x / static_cast<double>(near.size());
        EXPECT_GT(mean, before);
        before = mean;
    }
    EXPECT_GT(before, 0.9995);
}

TEST_F(PlaidWriterTest, ChunksMasksBlocksAndThreadsChangeNothing) {
    const TokenSource tokens = source(lengths_of(40));
    write_plaid_index(tokens, at("one"), {.threads = 1});
    write_plaid_index(tokens, at("two"), {.block_bytes = 1000, .threads = 3});
    EXPECT_EQ(files("one"), files("two"));
    const PlaidWriteReport report = write_plaid_index(tokens, at("chunks"), {.chunk_documents = 7});
    EXPECT_EQ(report.chunks, 6);
    EXPECT_EQ(cosines("chunks"), cosines("one"));
    const auto whole = files("one");
    const auto cut = files("chunks");
    for (const char* name : {"ivf.npy", "ivf_lengths.npy", "centroids.npy", "bucket_weights.npy"})
        EXPECT_EQ(cut.at(name), whole.at(name));
    // The same documents, padded, with what is hidden full of other numbers.
    Array padded(DType::f32, {40, 33, dim}, {-0.5, 3});
    Array mask(DType::boolean, {40, 33});
    for (std::size_t i = 0; i < 40; ++i) {
        const auto first = static_cast<std::size_t>(starts_[i]);
        for (std::size_t t = 0; first + t < static_cast<std::size_t>(starts_[i + 1]); ++t) {
            mask.set(i * 33 + t + 2, 1);
            for (std::size_t k = 0; k < dim; ++k)
                padded.set((i * 33 + t + 2) * dim + k, tokens_[(first + t) * dim + k]);
        }
    }
    TokenSet set;
    set.tokens = padded.view();
    set.mask = mask.view();
    PlaidWriteOptions options;
    options.centroids = PlaidIndex::open(at("one")).centroid_count();
    write_plaid_index(tokens_in_memory(set, Ids(40)), at("padded"), options);
    EXPECT_EQ(files("padded").at("doclens.0.json"), whole.at("doclens.0.json"));
    EXPECT_EQ(cosines("padded").size(), cosines("one").size());
}

TEST_F(PlaidWriterTest, ListsAreThoseOfTheCodes) {
    write_plaid_index(source(lengths_of(50)), at("index"), {.chunk_documents = 20});
    const PlaidIndex index = PlaidIndex::open(at("index"));
    const PlaidLists stored = index.lists();
    EXPECT_TRUE(stored.stored());
    fs::remove(at("index") / "ivf.npy");
    const PlaidLists made = index.lists();
    EXPECT_FALSE(made.stored());
    EXPECT_EQ(test::bytes_of(made.view().documents), test::bytes_of(stored.view().documents));
    EXPECT_EQ(test::bytes_of(made.view().lengths), test::bytes_of(stored.view().lengths));
}

TEST_F(PlaidWriterTest, FilesSayWhatFastPlaidAsks) {
    write_plaid_index(source({3, 0, 9, 4}), at("index"), {.nbits = 2, .centroids = 5, .chunk_documents = 3});
    const auto all = files("index");
    using nlohmann::json;
    const json metadata = json::parse(all.at("metadata.json"));
    EXPECT_EQ(metadata["num_chunks"], 2);
    EXPECT_EQ(metadata["nbits"], 2);
    EXPECT_EQ(metadata["num_partitions"], 5);
    EXPECT_EQ(metadata["num_embeddings"], 16);
    EXPECT_EQ(metadata["num_documents"], 4);
    EXPECT_EQ(metadata["avg_doclen"], 4.0);
    EXPECT_EQ(json::parse(all.at("1.metadata.json"))["embedding_offset"], 12);
    EXPECT_EQ(json::parse(all.at("plan.json"))["num_chunks"], 2);
    EXPECT_EQ(all.at("doclens.0.json"), "[3,0,9]");
    const auto type = [&](const char* name) { return read_npy(at("index") / name).view.dtype; };
    EXPECT_EQ(type("centroids.npy"), DType::f16);
    EXPECT_EQ(type("avg_residual.npy"), DType::f16);
    EXPECT_EQ(type("0.codes.npy"), DType::i64);
    EXPECT_EQ(type("ivf.npy"), DType::i64);
    EXPECT_EQ(type("ivf_lengths.npy"), DType::i32);
    EXPECT_EQ(read_npy(at("index") / "bucket_cutoffs.npy").view.shape[0], 3);
    EXPECT_EQ(read_npy(at("index") / "cluster_threshold.npy").view.ndim, 0);
}

TEST_F(PlaidWriterTest, WhatCannotBeWrittenLeavesNothing) {
    const auto refuse = [&](const TokenSource& tokens, const PlaidWriteOptions& options, ErrorCode code,
                            const std::vector<std::string>& texts) {
        expect_error(code, texts, [&] { write_plaid_index(tokens, at("index"), options); });
        EXPECT_EQ(entries(), 0U);
    };
    TokenSource tokens = source({3, 4});
    refuse(tokens, {.nbits = 3}, ErrorCode::invalid_value, {"nbits", "3"});
    refuse(tokens, {.centroids = 8}, ErrorCode::invalid_value, {"centroids: 8", "7 tokens"});
    refuse(tokens, {.chunk_documents = 0}, ErrorCode::invalid_value, {"chunk_documents", "0"});
    refuse(source({0, 0}), {}, ErrorCode::invalid_value, {"2 documents without tokens"});
    int calls = 0;
    PlaidWriteOptions stopped;
    stopped.progress = [&](std::int64_t, std::int64_t) {
        if (++calls == 6) throw Error(ErrorCode::io, "stopped");
    };
    refuse(source({3, 4}), stopped, ErrorCode::io, {"stopped"});
    tokens = source({3, 4});
    tokens_.set(5 * dim + 2, std::nan(""));
    refuse(tokens, {}, ErrorCode::invalid_value, {"document 1, token 2", "nan"});
    tokens = source({3, 4});
    fs::create_directory(at("index"));
    write("index/here", "x");
    expect_error(ErrorCode::io, {"index", "exists"}, [&] { write_plaid_index(tokens, at("index")); });
    EXPECT_EQ(entries(), 1U);
    fs::remove(at("index/here"));
    write_plaid_index(tokens, at("index/"));  // an empty folder is as good as none
    EXPECT_EQ(PlaidIndex::open(at("index")).count(), 2);
    expect_error(ErrorCode::io, {"nowhere"}, [&] { write_plaid_index(tokens, at("nowhere/index")); });
}

TEST(SphericalKmeans, FindsClustersAndFillsEmptyOnes) {
    // Ten rows of each of three directions; evenly spaced beginnings hit one of them twice.
    Rows rows{{}, 3};
    for (int i = 0; i < 30; ++i) {
        std::vector<float> row{0, 0, 0};
        row[i < 20 ? 0 : static_cast<std::size_t>(1 + i % 2)] = 1;
        rows.values.insert(rows.values.end(), row.begin(), row.end());
    }
    const Rows centroids = spherical_kmeans(rows, 3, 4, 2);
    const Nearest nearest = nearest_centroids(rows, centroids, 1);
    for (const float similarity : nearest.similarity) EXPECT_FLOAT_EQ(similarity, 1);
    EXPECT_EQ(spherical_kmeans(rows, 50, 1, 1).count(), 30);
}

TEST(ResidualCodec, CutsAtQuantilesAndPacksInColbertsOrder) {
    // One centroid of zeros, so that rows are their residuals: 0, 1/8, ... 7/8 of each.
    Rows rows{{}, 8};
    for (int i = 0; i < 8; ++i) {
        for (int k = 0; k < 8; ++k) rows.values.push_back(static_cast<float>((i + k) % 8) / 8);
    }
    const ResidualCodec codec = train_codec(rows, {std::vector<float>(8), 8}, 2, 1);
    ASSERT_EQ(codec.cutoffs.size(), 3U);
    EXPECT_FLOAT_EQ(codec.cutoffs[1], 0.4375F);  // halfway between 3/8 and 4/8
    EXPECT_EQ(codec.weights.size(), 4U);
    EXPECT_FLOAT_EQ(codec.avg_residual[0], 0.4375F);
    std::vector<std::int64_t> codes;
    std::vector<std::uint8_t> residuals;
    encode_rows(codec, rows, 1, codes, residuals);
    ASSERT_EQ(residuals.size(), 16U);
    // Row 0 is 0 .. 7 eighths: buckets 0 0 1 1 2 2 3 3, each with its lowest bit first from the top.
    EXPECT_EQ(residuals[0], 0b00001010);
    EXPECT_EQ(residuals[1], 0b01011111);
}

}  // namespace
}  // namespace rowmax::io
