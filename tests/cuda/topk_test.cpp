// Top-k on the GPU: the lists of core/topk, whatever the chunks, and through the public interface.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/device_topk.hpp"
#include "core/topk.hpp"
#include "cpu/sample.hpp"
#include "cuda/device_memory.hpp"

namespace rowmax::test {
namespace {

struct Ranking {
    std::vector<float> scores;
    std::vector<std::int64_t> documents;
};

class TopK : public ::testing::Test {
  protected:
    ~TopK() override { memory_.give_back(); }

    template <class T>
    T* moved(const std::vector<T>& values) {
        std::byte* to = memory_.take(values.size() * sizeof(T));
        DeviceMemory::to_device(to, values.data(), values.size() * sizeof(T));
        return reinterpret_cast<T*>(to);
    }

    template <class T>
    std::vector<T> fetched(const std::byte* from, std::int64_t count) {
        cudaDeviceSynchronize();
        std::vector<T> values(static_cast<std::size_t>(count));
        DeviceMemory::to_host(values.data(), from, values.size() * sizeof(T));
        return values;
    }

    /// The lists after all documents, offered `chunk` at a time.
    Ranking on_device(const std::vector<float>& scores, std::int64_t queries, std::int64_t k, std::int64_t chunk) {
        const core::DeviceTopK& device = *core::device_topk();
        const std::int64_t total = static_cast<std::int64_t>(scores.size()) / queries;
        const std::int64_t kept = std::min(k, total);
        core::TopKChunk part;
        part.lists = memory_.take(device.lists_bytes(queries, kept));
        part.queries = queries;
        part.k = kept;
        std::byte* best = memory_.take(static_cast<std::size_t>(queries * kept) * 4);
        std::byte* index = memory_.take(static_cast<std::size_t>(queries * kept) * 8);
        for (; part.first < total; part.first += chunk, ++part.number) {
            part.documents = std::min(chunk, total - part.first);
            std::vector<float> cut;
            for (std::int64_t q = 0; q < queries; ++q) {
                const auto from = scores.begin() + q * total + part.first;
                cut.insert(cut.end(), from, from + part.documents);
            }
            part.scores = moved(cut);
            if (part.first + chunk >= total) {
                part.best = reinterpret_cast<float*>(best);
                part.index = reinterpret_cast<std::int64_t*>(index);
            }
            device.merge({true, 0, nullptr, nullptr}, part);
        }
        const Ranking ranking{fetched<float>(best, queries * kept), fetched<std::int64_t>(index, queries * kept)};
        EXPECT_TRUE(memory_.guards_hold());
        memory_.give_back();
        return ranking;
    }

    TokenSet on_device(TokenSet set) {
        for (TensorView* view : {&set.tokens, &set.cu_seqlens, &set.offsets, &set.lengths}) {
            if (view->data == nullptr) continue;
            const std::size_t bytes = static_cast<std::size_t>(view->numel()) * size_of(view->dtype);
            std::byte* to = memory_.take(bytes);
            DeviceMemory::to_device(to, view->data, bytes);
            view->data = to;
        }
        return set;
    }

    DeviceMemory memory_;
};

Ranking by_the_book(const std::vector<float>& scores, std::int64_t queries, std::int64_t k) {
    const std::int64_t total = static_cast<std::int64_t>(scores.size()) / queries;
    core::TopK lists(queries, std::min(k, total));
    Ranking ranking;
    for (std::int64_t q = 0; q < queries; ++q) {
        for (std::int64_t j = 0; j < total; ++j)
            lists.push(q, static_cast<double>(scores[static_cast<std::size_t>(q * total + j)]), j);
        for (const core::Hit& hit : lists.ranked(q)) {
            ranking.scores.push_back(static_cast<float>(hit.score));
            ranking.documents.push_back(hit.document);
        }
    }
    return ranking;
}

void expect_same(const Ranking& got, const Ranking& want) {
    EXPECT_EQ(got.documents, want.documents);
    ASSERT_EQ(got.scores.size(), want.scores.size());
    for (std::size_t i = 0; i < want.scores.size(); ++i) {
        const bool same = got.scores[i] == want.scores[i] || (std::isnan(got.scores[i]) && std::isnan(want.scores[i]));
        EXPECT_TRUE(same) << "place " << i << ": " << got.scores[i] << " instead of " << want.scores[i];
    }
}

/// Some of every kind that is hard: ties, both zeros, infinities, NaN of both signs, denormals, close neighbours.
std::vector<float> hard_scores(std::int64_t count, unsigned seed) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float kinds[] = {0.0F,   -0.0F,   infinity, -infinity, nan, std::copysign(nan, -1.0F),
                           1e-42F, -1e-42F, 1.0F,     2.0F};
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> scores;
    for (std::int64_t i = 0; i < count; ++i) {
        const unsigned kind = static_cast<unsigned>(random() % 40);
        const float near = std::nextafter(1.0F, static_cast<float>(random() % 3));
        scores.push_back(kind < std::size(kinds) ? kinds[kind] : kind < 20 ? near : normal(random));
    }
    return scores;
}

TEST_F(TopK, HardScoresInAnyChunks) {
    unsigned seed = 0;
    for (const std::int64_t total : {1, 2, 31, 513, 5000}) {
        for (const std::int64_t queries : {1, 3}) {
            const std::vector<float> scores = hard_scores(queries * total, ++seed);
            for (const std::int64_t k : {1, 7, 100, 2048, 2049, 6000}) {
                const Ranking want = by_the_book(scores, queries, k);
                for (const std::int64_t chunk : {std::int64_t{64}, std::int64_t{1000}, total}) {
                    if (total / chunk > 100) continue;
                    SCOPED_TRACE(::testing::PrintToString(std::vector{total, queries, k, chunk}));
                    expect_same(on_device(scores, queries, k, chunk), want);
                }
            }
        }
    }
}

TEST_F(TopK, EqualScoresGoToTheLowestDocuments) {
    const std::vector<float> scores(3000, 0.5F);
    expect_same(on_device(scores, 1, 10, 700), by_the_book(scores, 1, 10));
}

TEST_F(TopK, ManyQueriesAndManyDocuments) {
    for (const auto& [queries, total] : {std::pair{300, 2000}, std::pair{1, 600000}}) {
        const std::vector<float> scores = hard_scores(std::int64_t{queries} * total, 77);
        expect_same(on_device(scores, queries, 100, total), by_the_book(scores, queries, 100));
    }
}

TEST_F(TopK, ThroughThePublicInterface) {
    for (const Layout layout : {Layout::cross, Layout::packed, Layout::ranges}) {
        const std::int64_t queries = layout == Layout::ranges ? 1 : 3;
        const Sample sample({layout, DType::f16, queries, 400, 20, 30, 64, false, false, 5}, small_integers(64));
        const TokenSet& q = sample.request.q;
        const TokenSet& d = sample.request.d;
        for (const std::int64_t k : {1, 10, 500}) {
            const std::int64_t kept = std::min<std::int64_t>(k, 400);
            Ranking want{std::vector<float>(static_cast<std::size_t>(queries * kept)),
                         std::vector<std::int64_t>(static_cast<std::size_t>(queries * kept))};
            topk(q, d, k, 0, {}, {want.scores.data(), DType::f32, {queries, kept}},
                 {want.documents.data(), DType::i64, {queries, kept}});
            for (const std::int64_t chunk : {0, 64, 399}) {
                SCOPED_TRACE(::testing::PrintToString(std::vector{k, chunk}));
                std::byte* best = memory_.take(static_cast<std::size_t>(queries * kept) * 4);
                std::byte* index = memory_.take(static_cast<std::size_t>(queries * kept) * 8);
                Options options;
                options.device.kind = Device::Kind::cuda;
                topk(on_device(q), on_device(d), k, chunk, options, {best, DType::f32, {queries, kept}},
                     {index, DType::i64, {queries, kept}});
                expect_same({fetched<float>(best, queries * kept), fetched<std::int64_t>(index, queries * kept)}, want);
                EXPECT_TRUE(memory_.guards_hold());
                memory_.give_back();
            }
        }
    }
}

}  // namespace
}  // namespace rowmax::test
